// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/judge.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "checkpoint/convert/compare.h"
#include "checkpoint/read/parallel.h"
#include "checkpoint/store/direct_file.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/verify.h"
#include "common/base/parse.h"

namespace dl::ckpt::tool {
namespace {

// A disk is only kept busy by several requests at once, however few cores there are.
constexpr size_t kLeastReaders = 4;

// Neighbouring blocks of a file that are read with one request, since a disk does not reach its full rate with small
// requests.
struct Task {
  size_t file;
  size_t first, end;  // indexes of blocks
  uint64_t at, bytes;
};
constexpr uint64_t kTaskBytes = 2 * kBlockBytes;
constexpr uint64_t kGapBytes = 65536;  // the largest gap between two blocks of a task

// The open file of one reader. It is read past the page cache, so that the bytes on the disk are verified.
struct OpenFile {
  size_t file = SIZE_MAX;
  std::unique_ptr<DirectFile> data;
  AlignedBuffer buffer;
};

std::vector<std::string> tensors_in(const Manifest& manifest, size_t file, const Extent& range) {
  if (file >= manifest.files.size()) return {manifest.members[file - manifest.files.size()].name};
  std::vector<std::string> names;
  const auto touches = [&](uint64_t at, uint64_t bytes) {
    return bytes > 0 && at < range.end() && at + bytes > range.at;
  };
  for (const TensorRecord& tensor : manifest.tensors)
    for (const ShardRecord& shard : tensor.shards)
      if (shard.file == file && touches(shard.at, volume(shard.box.extent).value_or(0) * tensor.dtype->size)) {
        names.push_back(tensor.path);
        break;
      }
  for (const BlobRecord& blob : manifest.blobs)
    if (blob.file == file && touches(blob.at, blob.size)) names.push_back(blob.path);
  return names;
}

Status open_file(Io& io, const std::string& path, size_t file, OpenFile* open) {
  if (open->file == file) return {};
  open->file = SIZE_MAX;
  DL_TRY_ASSIGN(open->data, DirectFile::open(io, path));
  open->file = file;
  return {};
}

Status compare(const Block& block, const unsigned char* bytes) {
  if (hash_bytes(bytes, block.length) != block.hash) return Error{Errc::kCorrupt, "its checksum is wrong"};
  return {};
}

using Fault = std::pair<size_t, Error>;  // index of the block, and its fault

// If the blocks cannot be read together, each is read by itself, to find the ones that cannot be read.
std::vector<Fault> check_blocks(Io& io, const std::string& path, const Task& task, const std::vector<Block>& blocks,
                                OpenFile* open) {
  std::vector<Fault> faults;
  const auto note = [&](size_t block, Status checked) {
    if (!checked) faults.emplace_back(block, std::move(checked).error());
  };
  const Status opened = open_file(io, path, task.file, open);
  if (opened) {
    if (const auto bytes = open->data->read(task.at, task.bytes, &open->buffer)) {
      for (size_t b = task.first; b < task.end; ++b) note(b, compare(blocks[b], *bytes + (blocks[b].at - task.at)));
      return faults;
    }
  }
  for (size_t b = task.first; b < task.end; ++b) {
    if (!opened) {
      note(b, opened);
      continue;
    }
    const auto bytes = open->data->read(blocks[b].at, blocks[b].length, &open->buffer);
    note(b, bytes ? compare(blocks[b], *bytes) : Status(bytes.error()));
  }
  return faults;
}

void add_tasks(size_t file, const std::vector<Block>& blocks, std::vector<Task>* tasks) {
  bool joins = false;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Block& block = blocks[b];
    Task* const last = joins ? &tasks->back() : nullptr;
    if (last && block.at - (last->at + last->bytes) <= kGapBytes && block.end() - last->at <= kTaskBytes) {
      last->end = b + 1;
      last->bytes = block.end() - last->at;
    } else {
      tasks->push_back(Task{file, b, b + 1, block.at, block.length});
    }
    joins = true;
  }
}

// Removes the path from the front, because the list of damage shows it already.
std::string shorten(std::string text, const std::string& path) {
  if (text.compare(0, path.size() + 2, path + ": ") == 0) text.erase(0, path.size() + 2);
  return text;
}

void read_all_blocks(Io& io, const std::string& checkpoint, const std::vector<bool>& missing, const Meter& meter,
                     Verdict* verdict) {
  const Manifest& manifest = *verdict->manifest;
  std::vector<Task> tasks;
  uint64_t total = 0, done = 0;
  for (size_t f = 0; f < stored_count(manifest); ++f) {
    if (missing[f]) continue;
    const StoredFile file = stored_file(manifest, f);
    add_tasks(f, *file.blocks, &tasks);
    total += file.size;
  }
  const size_t readers = std::max(kLeastReaders, useful_threads());
  std::vector<OpenFile> open(readers);
  std::mutex mutex;
  const auto outcome = for_each_parallel(tasks.size(), readers, [&](size_t index, size_t reader) -> Status {
    const Task& task = tasks[index];
    const StoredFile file = stored_file(manifest, task.file);
    const std::string path = checkpoint + "/" + file.name;
    const std::vector<Fault> faults = check_blocks(io, path, task, *file.blocks, &open[reader]);
    const std::lock_guard<std::mutex> lock(mutex);
    for (const auto& [number, error] : faults) {
      const Block& block = (*file.blocks)[number];
      verdict->damage.push_back(Damage{task.file, number, shorten(error.text, path),
                                       tensors_in(manifest, task.file, Extent{block.at, block.length})});
    }
    done += task.bytes;
    if (meter) meter(done, total);
    return {};
  });
  if (!outcome) verdict->reason = outcome.error().text;
  std::stable_sort(verdict->damage.begin(), verdict->damage.end(), [](const Damage& a, const Damage& b) {
    // A fault of the whole file comes before those of its blocks.
    return a.file != b.file ? a.file < b.file : a.block + 1 < b.block + 1;
  });
}

}  // namespace

size_t stored_count(const Manifest& manifest) {
  return manifest.files.size() + manifest.members.size();
}

StoredFile stored_file(const Manifest& manifest, size_t index) {
  if (index < manifest.files.size()) {
    const FileRecord& record = manifest.files[index];
    return StoredFile{record.name(), record.size, &record.blocks, &record};
  }
  const MemberRecord& member = manifest.members[index - manifest.files.size()];
  return StoredFile{member.file, member.size, &member.blocks, nullptr};
}

Status read_block(File* file, const Block& block, std::vector<unsigned char>* buffer) {
  if (buffer->size() < block.length) buffer->resize(block.length);
  DL_TRY(file->read_all(buffer->data(), block.length, block.at));
  return compare(block, buffer->data());
}

Verdict judge(Io& io, const std::string& dir, const CheckpointName& name, Depth depth, const Meter& meter) {
  Verdict verdict;
  auto manifest = load_manifest(io, dir, name);
  // of packed tensors; it is found again below, unless the block that has the index is not damaged
  std::string index_fault;
  if (!manifest) {
    index_fault = manifest.error().text;
    manifest = load_stored_manifest(io, dir, name);
  }
  if (!manifest) {
    verdict.reason = manifest.error().text;
    return verdict;
  }
  verdict.manifest = *std::move(manifest);
  const std::string checkpoint = checkpoint_path(dir, name);
  const Manifest& known = *verdict.manifest;
  std::vector<bool> missing(stored_count(known));
  for (size_t f = 0; f < missing.size(); ++f) {
    const StoredFile file = stored_file(known, f);
    const std::string path = checkpoint + "/" + file.name;
    Io::Info info;
    missing[f] = io.stat(path, &info) < 0 || !info.regular;
    if (missing[f]) {
      verdict.damage.push_back(
          Damage{f, Damage::kWholeFile, "it is missing", tensors_in(known, f, Extent{0, file.size})});
    } else if (info.size != file.size) {
      verdict.damage.push_back(
          Damage{f, Damage::kWholeFile, fmt::format("it has {} bytes instead of {}", info.size, file.size), {}});
    } else if (file.record) {
      const auto opened = DataFile::open(io, checkpoint, known, f);
      if (!opened) verdict.damage.push_back(Damage{f, Damage::kWholeFile, shorten(opened.error().text, path), {}});
    }
  }
  if (depth == Depth::kFull) read_all_blocks(io, checkpoint, missing, meter, &verdict);
  if (verdict.reason.empty() && !verdict.damage.empty())
    verdict.reason = describe(*verdict.manifest, verdict.damage.front());
  if (verdict.reason.empty()) verdict.reason = index_fault;
  return verdict;
}

Result<std::vector<NonFiniteTensor>> find_non_finite(Io& io, const std::string& checkpoint, const Manifest& manifest,
                                                     const Meter& meter) {
  std::vector<Piece> pieces;
  uint64_t at = 0;
  // The tensors are placed one after another in an imaginary file, so that the sink can tell from the offset to which
  // tensor its bytes belong.
  for (const TensorRecord& tensor : manifest.tensors) {
    pieces.push_back(Piece{&tensor, at});
    at += tensor.bytes();
  }
  std::vector<NonFiniteTensor> counts(pieces.size());
  std::mutex mutex;
  const Sink sink = [&](const void* bytes, size_t size, uint64_t place) -> Status {
    auto next = std::upper_bound(pieces.begin(), pieces.end(), place,
                                 [](uint64_t value, const Piece& piece) { return value < piece.at; });
    const auto index = static_cast<size_t>(next - pieces.begin()) - 1;
    const DtypeInfo& dtype = *pieces[index].tensor->dtype;
    const NonFinite found = count_non_finite(dtype, static_cast<const unsigned char*>(bytes), size / dtype.size);
    const std::lock_guard<std::mutex> lock(mutex);
    counts[index].nan += found.nan;
    counts[index].infinite += found.infinite;
    return {};
  };
  DL_TRY(copy_pieces(io, checkpoint, manifest, pieces, useful_threads(), sink, meter));
  std::vector<NonFiniteTensor> found;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i].nan + counts[i].infinite == 0) continue;
    counts[i].path = manifest.tensors[i].path;
    found.push_back(std::move(counts[i]));
  }
  return found;
}

std::string describe(const Manifest& manifest, const Damage& damage) {
  const StoredFile file = stored_file(manifest, damage.file);
  const bool whole = damage.block == Damage::kWholeFile;
  std::string text = file.name;
  if (!whole) {
    const Block& block = (*file.blocks)[damage.block];
    text += fmt::format(", bytes {} to {}", block.at, block.end() - 1);
  }
  text += ": " + damage.reason;
  if (damage.tensors.empty()) return whole ? text : text + " (in it: HDF5 metadata)";
  constexpr size_t kShown = 5;
  text += " (in it: ";
  for (size_t i = 0; i < std::min(kShown, damage.tensors.size()); ++i)
    text += (i ? ", " : "") + printable(damage.tensors[i], 100);
  if (damage.tensors.size() > kShown) text += fmt::format(" and {} more", damage.tensors.size() - kShown);
  return text + ")";
}

}  // namespace dl::ckpt::tool
