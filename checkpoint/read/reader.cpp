// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/read/reader.h"

#include <fmt/core.h>

#include <algorithm>

#include "checkpoint/read/parallel.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/verify.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

// A thread gets at least this much, because a block (4 MiB) that two threads share is read and checked twice.
constexpr uint64_t kChunkBytes = uint64_t{32} << 20;

// The existing train steps, newest first, as many as fit into a sentence.
std::string steps_text(const std::vector<CheckpointName>& names) {
  constexpr size_t kShown = 8;
  std::vector<std::string> steps;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) steps.push_back(std::to_string(names[i].step));
  return join(steps, ", ") + (names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

struct Part {
  Box box;
  uint64_t at = 0;  // offset in bytes
};
// Cuts the box along its first dimension that is not 1, into pieces of about kChunkBytes that follow one another in its
// C order.
std::vector<Part> parts_of(const Box& box, uint64_t element) {
  const uint64_t bytes = volume(box.extent).value_or(0) * element;
  size_t d = 0;
  while (d < box.extent.size() && box.extent[d] == 1) ++d;
  if (bytes < 2 * kChunkBytes || d == box.extent.size()) return {Part{box, 0}};
  const uint64_t row = bytes / static_cast<uint64_t>(box.extent[d]);
  const auto step = static_cast<int64_t>(std::max<uint64_t>(1, kChunkBytes / row));
  std::vector<Part> parts;
  for (int64_t from = 0; from < box.extent[d]; from += step) {
    Part part{box, static_cast<uint64_t>(from) * row};
    part.box.offset[d] += from;
    part.box.extent[d] = std::min(step, box.extent[d] - from);
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

Result<Reader> Reader::open(Io& io, std::string dir, std::optional<int64_t> step) {
  Reader reader(io, std::move(dir));
  Io::Info info;
  if (const int found = io.stat(reader.dir_, &info); found != 0) return errno_error(reader.dir_, -found);
  if (!info.directory) return Error{Errc::kInvalid, reader.dir_ + " is not a directory"};
  DL_TRY(reader.pick([&](const std::optional<CheckpointName>& gone) -> Result<std::vector<CheckpointName>> {
    DL_TRY_ASSIGN(const std::vector<CheckpointName> names, scan_checkpoints(io, reader.dir_));
    std::vector<CheckpointName> wanted;
    for (const CheckpointName& name : names)
      if (!step || name.step == *step) wanted.push_back(name);
    if (!wanted.empty()) return wanted;
    if (gone) return gone_error(io, reader.dir_, *gone);
    if (names.empty()) return Error{Errc::kNotFound, "no checkpoint in " + reader.dir_};
    return Error{Errc::kNotFound, fmt::format("no checkpoint of train step {} in {}; there are {}", *step, reader.dir_,
                                              steps_text(names))};
  }));
  return reader;
}

Status Reader::older() {
  return pick([&](const std::optional<CheckpointName>&) -> Result<std::vector<CheckpointName>> {
    DL_TRY_ASSIGN(std::vector<CheckpointName> names, scan_checkpoints(*io_, dir_));
    const uint64_t rejected = name().save_id;
    names.erase(std::remove_if(names.begin(), names.end(),
                               [&](const CheckpointName& other) { return other.save_id >= rejected; }),
                names.end());
    if (!names.empty()) return names;
    return Error{Errc::kNotFound,
                 fmt::format("no checkpoint in {} is older than that of train step {}", dir_, name().step)};
  });
}

Status Reader::pick(const Candidates& candidates) {
  std::optional<CheckpointName> gone;
  for (int look = 0; look < kLooks; ++look) {
    DL_TRY_ASSIGN(const std::vector<CheckpointName> names, candidates(gone));
    std::optional<CheckpointName> gone_now;
    Status picked = pick_of(names, &gone_now);
    // If one was removed, its job has a newer one now. But a name that leads nowhere (a symbolic link) stays; then the
    // others count, be they good or damaged.
    const bool again = gone && gone_now && gone->save_id == gone_now->save_id;
    if (!gone_now || (again && (picked || picked.error().code != Errc::kNotFound))) return picked;
    gone = gone_now;
  }
  return gone_error(*io_, dir_, *gone);
}

Status Reader::pick_of(const std::vector<CheckpointName>& candidates, std::optional<CheckpointName>* gone) {
  Errc worst = Errc::kNotFound;
  std::vector<std::string> passed;
  for (const CheckpointName& name : candidates) {
    auto picked = std::make_unique<Picked>();
    picked->path = checkpoint_path(dir_, name);
    auto manifest = load_manifest(*io_, dir_, name);
    Status whole_files = manifest ? check_files(*io_, picked->path, *manifest) : Status(manifest.error());
    if (!whole_files) {
      if (is_gone(*io_, dir_, name)) {
        *gone = name;
        continue;
      }
      if (whole_files.error().code != Errc::kNotFound) worst = whole_files.error().code;
      passed.push_back(whole_files.error().text);
      continue;
    }
    picked->manifest = *std::move(manifest);
    picked->stream = std::make_unique<TensorStream>(*io_, picked->path, picked->manifest);
    picked_ = std::move(picked);
    passed_over_ = std::move(passed);
    return {};
  }
  return Error{worst, fmt::format("no checkpoint in {} can be read: {}", dir_, join(passed, "; "))};
}

Status Reader::load(const TensorRecord& tensor, const Box& box, void* out) {
  const std::vector<Part> parts = parts_of(box, tensor.dtype->size);
  if (parts.size() == 1) return explained(picked_->stream->read_box(tensor, box, out));
  const size_t threads = std::min(useful_threads(), parts.size());
  std::vector<TensorStream> streams;
  streams.reserve(threads);
  for (size_t i = 0; i < threads; ++i) streams.emplace_back(*io_, picked_->path, picked_->manifest);
  return explained(for_each_parallel(parts.size(), threads, [&](size_t index, size_t thread) {
    return streams[thread].read_box(tensor, parts[index].box, static_cast<unsigned char*>(out) + parts[index].at);
  }));
}

Status Reader::load_blob(const BlobRecord& blob, void* out) {
  return explained(picked_->stream->read_blob(blob, out));
}

// The job that owns the directory removes checkpoints that it no longer keeps, and may overwrite the files of old ones.
// Their blocks then do not verify although nothing is damaged, so the error is replaced by one that says so.
Status Reader::explained(Status outcome) const {
  if (outcome) return outcome;
  return error_or_gone(*io_, dir_, name(), std::move(outcome).error());
}

}  // namespace dl::ckpt
