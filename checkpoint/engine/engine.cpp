// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/engine/engine.h"

#include <algorithm>
#include <cerrno>

#include "checkpoint/engine/memory_limit.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kMinBuffer = uint64_t{64} << 10;
constexpr uint64_t kMaxBuffer = uint64_t{8} << 20;
constexpr int kMaxCopyThreads = 4;
constexpr int kWriteThreads = 4;

bool same_dataset(const LayoutItem& a, const LayoutItem& b) {
  return a.dtype == b.dtype && a.replicated == b.replicated && a.blob == b.blob && a.box == b.box &&
         a.shape == b.shape && a.h5_path == b.h5_path && a.path == b.path;
}

// About eight buffers, so that copying, hashing and writing overlap also in little memory.
uint64_t buffer_size(uint64_t budget) {
  uint64_t size = kMaxBuffer;
  while (size > kMinBuffer && size * 8 > budget) size /= 2;
  return size;
}

std::string mebibytes(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

Status check_memory_wish(uint64_t bytes) {
  const auto room = memory_room();
  if (!room || bytes <= room->left()) return {};
  return Error{Errc::kInternal,
               "DL_CHECKPOINT_MEMORY (options.memory_bytes) asks for " + mebibytes(bytes) +
                   " of staging memory, but the job's cgroup leaves " + mebibytes(room->left()) + " (limit " +
                   mebibytes(room->limit) + ", in use " + mebibytes(room->used) + ")",
               ENOMEM};
}

CopyPool& Engine::pool() {
  if (!pool_) pool_ = std::make_unique<CopyPool>(usable_cores(kMaxCopyThreads));
  return *pool_;
}

WriteQueue& Engine::queue() {
  if (!queue_) queue_ = make_write_queue(io_, settings_.write_threads > 0 ? settings_.write_threads : kWriteThreads);
  return *queue_;
}

// Blobs (JSON, random states) have other sizes in each save; they come after the tensors, and only they are laid out
// anew.
Result<Layout> Engine::lay_out_cached(const std::vector<WriteItem>& items) {
  const auto is_blob = [](const WriteItem& item) { return item.item.blob; };
  const auto first_blob = std::find_if(items.begin(), items.end(), is_blob);
  if (!std::all_of(first_blob, items.end(), is_blob))
    return Error{Errc::kInternal, "a tensor follows a blob in the plan of a save"};
  const auto tensors = static_cast<size_t>(first_blob - items.begin());
  bool same = template_ && template_items_.size() == tensors;
  for (size_t i = 0; same && i < tensors; ++i) same = same_dataset(template_items_[i], items[i].item);
  if (!same) {
    template_.reset();
    template_items_.clear();
    for (size_t i = 0; i < tensors; ++i) template_items_.push_back(items[i].item);
    DL_TRY_ASSIGN(Layout made, lay_out_template(template_items_));
    template_ = std::make_unique<Layout>(std::move(made));
    ++layouts_made_;
  }
  std::vector<LayoutItem> blobs;
  for (auto blob = first_blob; blob != items.end(); ++blob) blobs.push_back(blob->item);
  return complete_layout(*template_, blobs);
}

uint64_t Engine::budget_for(uint64_t bytes) const {
  if (settings_.memory_bytes > 0) return std::min(settings_.memory_bytes, bytes);
  const auto room = memory_room();
  return room ? std::min(bytes, std::max(room->left() / 2, kMaxBuffer)) : bytes;
}

// Buffers for all files at once, if the budget allows; kept as long as they do.
Status Engine::make_staging(const std::vector<uint64_t>& file_sizes) {
  uint64_t bytes = 0;
  for (const uint64_t size : file_sizes) bytes += round_up(size, kDirectAlignment);
  const auto buffers_of = [&](uint64_t buffer) {
    uint64_t count = 0;
    for (const uint64_t size : file_sizes) count += (size + buffer - 1) / buffer;
    return count;
  };
  if (staging_) {
    // What it may grow to counts what it has.
    const uint64_t budget = staging_->bytes() >= bytes ? bytes : budget_for(bytes);
    if (staging_->buffer_bytes() == buffer_size(budget) &&
        (staging_->buffers() >= buffers_of(staging_->buffer_bytes()) || staging_->bytes() + kMaxBuffer >= budget))
      return {};
    prefaulter_.wait();
    staging_.reset();
  }
  const uint64_t budget = budget_for(bytes);
  const uint64_t buffer = buffer_size(budget);
  // One to spare, so that a blob that grows needs no new memory; it is not touched before it is used.
  const uint64_t count =
      budget >= bytes ? buffers_of(buffer) + 1 : std::clamp<uint64_t>(budget / buffer, 1, buffers_of(buffer));
  DL_TRY_ASSIGN(staging_, Staging::make(buffer, count));
  return {};
}

Result<std::unique_ptr<SaveJob>> Engine::prepare(std::vector<WriteItem> items) {
  DL_TRY_ASSIGN(Layout layout, lay_out_cached(items));
  DL_TRY(make_staging({layout.file_size}));
  std::vector<FileImage> images;
  images.emplace_back(std::move(layout), std::move(items), 0, staging_->buffer_bytes());
  return std::make_unique<SaveJob>(*staging_, std::move(images));
}

void Engine::warm(uint64_t bytes) {
  if (prefaulter_.busy() || !make_staging({bytes})) return;
  prefaulter_.run([this] { staging_->prefault(); });
}

}  // namespace dl::ckpt
