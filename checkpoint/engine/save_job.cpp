// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/engine/save_job.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "checkpoint/engine/copy.h"
#include "checkpoint/engine/slot.h"
#include "checkpoint/format/user_block.h"
#include "checkpoint/store/out_of_memory.h"

namespace dl::ckpt {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

SaveJob::SaveJob(Staging& staging, std::vector<FileImage> images, std::optional<KeptFile> kept,
                 std::vector<Place> places)
    : staging_(staging), images_(std::move(images)), kept_(std::move(kept)), places_(std::move(places)) {
  staging_.reset();
  for (size_t i = 0; i < images_.size(); ++i)
    for (uint64_t k = 0; k < images_[i].segments(); ++k) segments_.push_back(Segment{i, k, nullptr});
}

uint64_t SaveJob::file_bytes() const {
  uint64_t bytes = 0;
  for (const FileImage& image : images_) bytes += image.file_size();
  return bytes;
}

uint64_t SaveJob::reused_bytes() const {
  uint64_t bytes = 0;
  if (kept_)
    for (const LayoutItem& item : kept_->items) bytes += volume(item.box.extent).value_or(0) * item.dtype->size;
  return bytes;
}

void SaveJob::wait_for_devices() {
  const auto begin = Clock::now();
  Status ready = or_out_of_memory([&]() -> Status {
    for (const FileImage& image : images_) DL_TRY(await_devices(image.items()));
    return {};
  });
  const std::lock_guard<std::mutex> lock(mutex_);
  copy_status_ = std::move(ready);
  times_.copy_s = seconds_since(begin);
}

void SaveJob::copy(CopyPool& pool) {
  const auto begin = Clock::now();
  pool.run([this] { copy_some(); });
  const std::lock_guard<std::mutex> lock(mutex_);
  times_.copy_s += seconds_since(begin);
  copying_done_ = true;
  changed_.notify_all();
}

void SaveJob::copy_some() {
  DeviceCopies copies;
  for (;;) {
    unsigned char* buffer = nullptr;
    size_t mine = 0;
    {
      const std::lock_guard<std::mutex> lock(order_mutex_);
      if (next_segment_ == segments_.size()) return;
      buffer = staging_.acquire();
      if (!buffer) return;
      mine = next_segment_++;
    }
    Segment& segment = segments_[mine];
    Status copied = or_out_of_memory([&] { return images_[segment.image].copy_items(segment.index, buffer, &copies); });
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!copied && copy_status_) copy_status_ = std::move(copied);
      segment.buffer = buffer;
    }
    changed_.notify_all();
  }
}

void SaveJob::wait_copied() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return copying_done_; });
}

SaveJob::Times SaveJob::times() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return times_;
}

unsigned char* SaveJob::await_copied(size_t segment) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return segments_[segment].buffer != nullptr; });
  return segments_[segment].buffer;
}

void SaveJob::abandon() {
  staging_.close();
  wait_copied();
}

Status SaveJob::write(Io& io, WriteQueue& queue, const std::string& directory, const FileIdentity& identity,
                      const std::string& slot) {
  const auto begin = Clock::now();
  Status status = or_out_of_memory([&]() -> Status {
    DL_TRY(add_kept_file(io, directory, identity));
    return open_files(io, directory, identity, slot);
  });
  if (status) {
    status = or_out_of_memory([&]() -> Status {
      write_segments(queue);
      return {};
    });
    Status written = queue.finish();
    if (status) status = std::move(written);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status) status = copy_status_;
  }
  double write_s = seconds_since(begin), fsync_s = 0;
  if (status) {
    const auto sync_begin = Clock::now();
    status = or_out_of_memory([&] { return finish_files(identity); });
    fsync_s = seconds_since(sync_begin);
  }
  if (!status) staging_.close();
  wait_copied();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    times_.write_s = write_s;
    times_.fsync_s = fsync_s;
  }
  if (!status) {
    // This frees space, so that the messages that report the failure can be written.
    for (const auto& file : files_) io.unlink(file->path());
    if (!kept_path_.empty()) io.unlink(kept_path_);
  }
  files_.clear();
  return status;
}

Status SaveJob::add_kept_file(Io& io, const std::string& directory, const FileIdentity& identity) {
  if (!kept_) return {};
  const std::string path = directory + "/" + format_file_name(identity.writer, kKeptPart);
  DL_TRY(put_kept_file(io, *kept_, path));
  kept_path_ = path;
  return {};
}

Status SaveJob::open_files(Io& io, const std::string& directory, const FileIdentity& identity,
                           const std::string& slot) {
  for (const FileImage& image : images_) {
    const std::string name = format_file_name(identity.writer, image.part());
    const std::string path = directory + "/" + name;
    const uint64_t recycled = slot.empty() ? 0 : take_from_slot(io, slot, name, path, image.file_size());
    DL_TRY(open_file(io, path, recycled));
    DL_TRY(files_.back()->reserve(image.file_size()));
  }
  return {};
}

// `recycled` is the size of an existing file that is overwritten, or 0.
Status SaveJob::open_file(Io& io, const std::string& path, uint64_t recycled) {
  DL_TRY_ASSIGN(auto file, DirectOutput::open(io, path, recycled ? O_WRONLY : O_WRONLY | O_CREAT | O_EXCL));
  files_.push_back(std::move(file));
  found_sizes_.push_back(recycled);
  if (recycled == 0) return {};
  // The user block is cleared first: the file must not look complete once its data is overwritten.
  alignas(kDirectAlignment) static const unsigned char nothing[kUserBlockBytes] = {};
  DL_TRY(files_.back()->write(nothing, sizeof nothing, 0));
  return files_.back()->sync();
}

// The queue remembers failures, and then drops the remaining writes.
void SaveJob::write_segments(WriteQueue& queue) {
  for (size_t i = 0; i < segments_.size(); ++i) {
    unsigned char* buffer = await_copied(i);
    const Segment& segment = segments_[i];
    FileImage& image = images_[segment.image];
    image.finish_segment(segment.index, buffer);
    const std::vector<Extent> ranges = image.early_ranges(segment.index);
    // The last write of a segment gives its buffer back.
    auto open = std::make_shared<std::atomic<size_t>>(ranges.size() + 1);
    const auto done = [this, open, buffer] {
      if (open->fetch_sub(1) == 1) staging_.release(buffer);
    };
    for (const Extent& range : ranges)
      queue.submit(*files_[segment.image], buffer + (range.at - image.segment_at(segment.index)), range.length,
                   range.at, done);
    done();
  }
}

Status SaveJob::finish_files(const FileIdentity& identity) {
  for (size_t i = 0; i < images_.size(); ++i) {
    records_.push_back(images_[i].seal(identity));
    for (const FileImage::LatePages& pages : images_[i].late_pages())
      DL_TRY(files_[i]->write(pages.data, pages.size, pages.at));
    if (std::max(images_[i].padded_size(), found_sizes_[i]) != images_[i].file_size())
      DL_TRY(files_[i]->set_size(images_[i].file_size()));
  }
  if (kept_) records_.push_back(kept_->record);
  for (const auto& file : files_) {
    DL_TRY(file->sync());
    DL_TRY(file->close());
  }
  return {};
}

}  // namespace dl::ckpt
