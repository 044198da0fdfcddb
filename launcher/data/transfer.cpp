// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/transfer.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/data/digest.h"
#include "launcher/data/threads.h"

namespace dl::data {
namespace {

constexpr size_t kBatch = 64;               // small files that a thread takes at once
constexpr uint64_t kBatchBytes = 16 << 20;  // or so many bytes of them

struct Task {
  size_t first = 0, count = 0;         // small files: places in Transfer::small_
  size_t large = 0;                    // else a large file: place in Transfer::large_
  size_t first_chunk = 0, chunks = 0;  // and its chunks
};

// A large file that is being fetched.
struct Large {
  size_t entry = 0;
  std::unique_ptr<PartFile> part;
  std::mutex end;  // one thread finishes it
  bool finished = false;
};

class Transfer {
 public:
  Transfer(Origin* origin, const Manifest& manifest, Work* work, Counts* counts, const TransferOptions& options)
      : origin_(origin), manifest_(manifest), work_(work), counts_(counts), options_(options) {}

  Status run() {
    DL_TRY(divide());
    const unsigned streams = options_.streams > 0 ? options_.streams : origin_->streams();
    const size_t workers = std::min<size_t>(streams, tasks_.size());
    on_threads(workers + (many_.empty() ? 0 : 1), [this] {
      if (!many_.empty() && !many_taken_.exchange(true)) guarded([this] { return fetch_many(); });
      work_off();
    });
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failed_) return *std::move(failed_);
    return {};
  }

 private:
  // Makes the list of what is to be done.
  Status divide() {
    const bool many = origin_->has_many();
    for (size_t i = 0; i < manifest_.entries.size(); ++i) {
      const Entry& entry = manifest_.entries[i];
      if (entry.folder || work_->has(i)) continue;
      if (entry.size <= origin_->small()) {
        (many ? many_ : small_).push_back(i);
        continue;
      }
      auto large = std::make_unique<Large>();
      large->entry = i;
      DL_TRY_ASSIGN(PartFile part, work_->part(i));
      large->part = std::make_unique<PartFile>(std::move(part));
      counts_->bytes += large->part->bytes_there();
      counts_->resumed += large->part->bytes_there();
      add_chunks(large_.size(), *large->part);
      large_.push_back(std::move(large));
    }
    for (size_t at = 0; at < small_.size();) {
      Task task;
      task.first = at;
      for (uint64_t bytes = 0; at < small_.size() && task.count < kBatch && bytes < kBatchBytes; ++at, ++task.count)
        bytes += manifest_.entries[small_[at]].size;
      tasks_.push_back(task);
    }
    return {};
  }

  void add_chunks(size_t large, const PartFile& part) {
    const size_t most = std::max<size_t>(1, static_cast<size_t>(origin_->span() / kChunkBytes));
    bool any = false;
    for (size_t chunk = 0; chunk < part.chunks();) {
      Task task;
      task.large = large;
      task.first_chunk = chunk;
      while (chunk < part.chunks() && task.chunks < most && !part.has(chunk)) ++chunk, ++task.chunks;
      if (task.chunks > 0)
        tasks_.push_back(task), any = true;
      else
        ++chunk;
    }
    // All of it was there when the fetch was killed, but not its end.
    if (!any) tasks_.push_back({0, 0, large, part.chunks(), 0});
  }

  void work_off() {
    for (;;) {
      const size_t at = next_++;
      if (at >= tasks_.size() || origin_->stop) return;
      const Task& task = tasks_[at];
      guarded([&] { return task.count > 0 ? fetch_small(task) : fetch_chunks(task); });
    }
  }

  // The first error of a thread ends all.
  template <typename Job>
  void guarded(Job&& job) {
    Status done = Error{Errc::kInternal, "a transfer ended with an unknown error"};
    try {
      done = job();
    } catch (const std::exception& error) {
      done = Error{Errc::kInternal, std::string("a transfer ended with: ") + error.what()};
    }
    if (done) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failed_) failed_ = std::move(done).error();
    origin_->stop = true;
  }

  Status fetch_small(const Task& task) {
    std::string data;
    for (size_t i = task.first; i < task.first + task.count && !origin_->stop; ++i) {
      const size_t index = small_[i];
      const Entry& entry = manifest_.entries[index];
      DL_TRY(try_again(options_.patience, origin_->stop, [&] {
        data.clear();
        return origin_->read(entry, 0, entry.size, [&](std::string_view more) {
          counts_->fetched += more.size();
          data += more;
          return Status();
        });
      }));
      if (is_checksum(entry.identity)) DL_TRY(compare_checksum(data, entry.identity, entry.path));
      DL_TRY(work_->put(index, data));
      counts_->bytes += entry.size;
    }
    return {};
  }

  // Small files by a program that fetches many. What it has passed on stays when it is started again.
  Status fetch_many() {
    uint64_t before = counts_->files;
    return try_again(
        options_.patience, origin_->stop,
        [&] {
          std::vector<size_t> left;
          for (const size_t entry : many_)
            if (!work_->has(entry)) left.push_back(entry);
          if (left.empty()) return Status();
          return origin_->read_many(manifest_, left, work_->incoming(),
                                    [&](size_t entry, const std::string& path) -> Status {
                                      DL_TRY(work_->take(entry, path, options_.compare));
                                      counts_->bytes += manifest_.entries[entry].size;
                                      counts_->fetched += manifest_.entries[entry].size;
                                      return {};
                                    });
        },
        [&] { return std::exchange(before, counts_->files.load()) != counts_->files; });
  }

  Status fetch_chunks(const Task& task) {
    Large& large = *large_[task.large];
    size_t chunk = task.first_chunk;
    const size_t end = task.first_chunk + task.chunks;
    size_t before = chunk;
    while (chunk < end && !origin_->stop)
      DL_TRY(try_again(
          options_.patience, origin_->stop, [&] { return read_chunks(&large, &chunk, end); },
          [&] { return std::exchange(before, chunk) != chunk; }));
    if (origin_->stop) return {};
    const std::lock_guard<std::mutex> lock(large.end);
    if (large.finished || !large.part->complete()) return {};
    const Status finished = work_->finish_part(large.entry, large.part.get());
    if (!finished && finished.error().code == Errc::kCorrupt)
      counts_->bytes -= std::min<uint64_t>(counts_->bytes, manifest_.entries[large.entry].size);
    large.finished = static_cast<bool>(finished);
    return finished;
  }

  // Reads from *chunk to `end` in one go; *chunk moves on with each that is there.
  Status read_chunks(Large* large, size_t* chunk, size_t end) {
    PartFile& part = *large->part;
    const uint64_t from = part.offset_of(*chunk);
    const uint64_t to = part.offset_of(end - 1) + part.size_of(end - 1);
    uint64_t at = from, of_chunk = 0;
    ChunkHash hash;
    auto take = [&](std::string_view data) -> Status {
      counts_->fetched += data.size();
      while (!data.empty()) {
        if (*chunk >= end) return Error{Errc::kConflict, "more bytes have come than were asked for"};
        const std::string_view piece = data.substr(0, part.size_of(*chunk) - of_chunk);
        DL_TRY(part.write(at, piece));
        hash.add(piece);
        at += piece.size();
        of_chunk += piece.size();
        data.remove_prefix(piece.size());
        if (of_chunk < part.size_of(*chunk)) continue;
        DL_TRY(part.finished(*chunk, hash.take()));
        counts_->bytes += of_chunk;
        of_chunk = 0;
        ++*chunk;
      }
      return {};
    };
    DL_TRY(origin_->read(manifest_.entries[large->entry], from, to - from, take));
    if (*chunk == end) return {};
    return Error{Errc::kBusy, "the transfer of '" + manifest_.entries[large->entry].path + "' ended early"};
  }

  Origin* const origin_;
  const Manifest& manifest_;
  Work* const work_;
  Counts* const counts_;
  const TransferOptions options_;
  std::vector<size_t> small_, many_;
  std::vector<std::unique_ptr<Large>> large_;
  std::vector<Task> tasks_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> many_taken_{false};
  std::mutex mutex_;
  std::optional<Error> failed_;
};

}  // namespace

Status transfer(Origin* origin, const Manifest& manifest, Work* work, Counts* counts, const TransferOptions& options) {
  origin->stop = false;
  return Transfer(origin, manifest, work, counts, options).run();
}

}  // namespace dl::data
