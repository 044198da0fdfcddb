// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/store/verify.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "checkpoint/format/packed_index.h"
#include "checkpoint/format/user_block.h"
#include "checkpoint/store/directory.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

Error corrupt(const std::string& what) {
  return Error{Errc::kCorrupt, what};
}

// If a part of a committed checkpoint is missing, the checkpoint is damaged.
Error missing_is_corrupt(Error error) {
  if (error.code == Errc::kNotFound) error.code = Errc::kCorrupt;
  return error;
}

Result<UserBlock> read_user_block(File* file, const CheckpointName& by, const FileRecord& record) {
  unsigned char bytes[kUserBlockBytes];
  DL_TRY(file->read_all(bytes, sizeof bytes, 0));
  DL_TRY_ASSIGN(const UserBlock block, decode_user_block(bytes));
  if (block.save_id != by.save_id || block.step != by.step)
    return corrupt("it belongs to another save: " + format_checkpoint_name(CheckpointName{block.step, block.save_id}));
  if (block.file_size != record.size || block.root != record.root || block.table_at != record.table.at ||
      block.block_count != record.blocks.size())
    return corrupt("its user block does not agree with the manifest");
  return block;
}

Status check_user_block(File* file, const Manifest& manifest, const FileRecord& record) {
  DL_TRY_ASSIGN(const UserBlock block, read_user_block(file, record.origin ? *record.origin : manifest.name, record));
  // A file of an earlier save may come from a run with another number of ranks.
  if (!record.origin &&
      (block.writer != record.writer || block.world_size != static_cast<uint32_t>(manifest.world_size)))
    return corrupt("it was written by rank " + std::to_string(block.writer) + " of " +
                   std::to_string(block.world_size) + ", and the manifest says rank " + std::to_string(record.writer) +
                   " of " + std::to_string(manifest.world_size));
  return {};
}

// The table in the file must agree with the manifest, and zeros must follow it.
Status check_stored_table(File* file, const FileRecord& record) {
  std::string expected = encode_table(record.blocks);
  uint64_t done = 0;
  std::vector<char> buffer(std::min<uint64_t>(record.table.length, uint64_t{1} << 20));
  while (done < record.table.length) {
    const auto part = static_cast<size_t>(std::min<uint64_t>(buffer.size(), record.table.length - done));
    DL_TRY(file->read_all(buffer.data(), part, record.table.at + done));
    for (size_t i = 0; i < part; ++i) {
      const char want = done + i < expected.size() ? expected[done + i] : '\0';
      if (buffer[i] != want) return corrupt("its block table does not agree with the manifest");
    }
    done += part;
  }
  return {};
}

Result<Manifest> load(Io& io, const std::string& dir, const CheckpointName& name,
                      Result<Manifest> (*parse)(std::string_view)) {
  const std::string path = checkpoint_path(dir, name) + "/" + kManifestName;
  auto text = read_small_file(io, path, kMaxManifestBytes);
  if (!text) return missing_is_corrupt(std::move(text).error());
  auto manifest = parse(*text);
  if (!manifest) return std::move(manifest).error().with_context(path);
  if (manifest->name.save_id != name.save_id || manifest->name.step != name.step)
    return corrupt(path + ": it belongs to another save: " + format_checkpoint_name(manifest->name));
  return manifest;
}

}  // namespace

Result<Manifest> load_stored_manifest(Io& io, const std::string& dir, const CheckpointName& name) {
  return load(io, dir, name, parse_manifest);
}

Result<Manifest> load_outline(Io& io, const std::string& dir, const CheckpointName& name) {
  return load(io, dir, name, parse_manifest_outline);
}

namespace {

Status check_size(Io& io, const std::string& path, uint64_t size) {
  Io::Info info;
  const int rc = io.stat(path, &info);
  if (rc < 0) return missing_is_corrupt(io_error("stat", path, rc));
  if (!info.regular) return corrupt(path + ": it is not a regular file");
  if (info.size != size)
    return corrupt(path + ": it has " + std::to_string(info.size) + " bytes instead of " + std::to_string(size));
  return {};
}

}  // namespace

Status check_files(Io& io, const std::string& checkpoint, const Manifest& manifest) {
  for (const FileRecord& record : manifest.files) DL_TRY(check_size(io, checkpoint + "/" + record.name(), record.size));
  for (const MemberRecord& member : manifest.members)
    DL_TRY(check_size(io, checkpoint + "/" + member.file, member.size));
  return {};
}

Status check_head(Io& io, const std::string& path, const CheckpointName& by, const FileRecord& record) {
  DL_TRY(check_size(io, path, record.size));
  auto file = File::open(io, path, O_RDONLY);
  if (!file) return std::move(file).error();
  auto block = read_user_block(&*file, by, record);
  Status checked = block ? check_stored_table(&*file, record) : Status(std::move(block).error());
  if (!checked) return std::move(checked).error().with_context(path);
  return {};
}

Result<DataFile> DataFile::open(Io& io, const std::string& checkpoint, const Manifest& manifest, size_t index) {
  const FileRecord& record = manifest.files[index];
  const std::string path = checkpoint + "/" + record.name();
  DL_TRY(check_size(io, path, record.size));
  auto file = File::open(io, path, O_RDONLY);
  if (!file) return missing_is_corrupt(std::move(file).error());
  auto checked = check_user_block(&*file, manifest, record);
  if (checked) checked = check_stored_table(&*file, record);
  if (!checked) return std::move(checked).error().with_context(path);
  return DataFile(*std::move(file), &record);
}

Result<const unsigned char*> DataFile::read_block(size_t index) {
  if (index == held_) return static_cast<const unsigned char*>(buffer_.data());
  const Block& block = record_->blocks[index];
  held_ = SIZE_MAX;
  if (buffer_.size() < block.length) buffer_.resize(block.length);
  DL_TRY(file_.read_all(buffer_.data(), block.length, block.at));
  if (hash_bytes(buffer_.data(), block.length) != block.hash)
    return corrupt(file_.path() + ": the checksum of the block at byte " + std::to_string(block.at) + " is wrong");
  held_ = index;
  return static_cast<const unsigned char*>(buffer_.data());
}

namespace {

bool by_path(const TensorRecord& a, const TensorRecord& b) {
  return a.path < b.path;
}

// Verifies a member. It calls reads(bytes) now and then, which may stop it.
template <typename Reads>
Status verify_member(Io& io, const std::string& checkpoint, const MemberRecord& member, Reads&& reads) {
  const std::string path = checkpoint + "/" + member.file;
  DL_TRY(check_size(io, path, member.size));
  auto file = File::open(io, path, O_RDONLY);
  if (!file) return missing_is_corrupt(std::move(file).error());
  std::vector<unsigned char> buffer;
  for (const Block& block : member.blocks) {
    if (buffer.size() < block.length) buffer.resize(block.length);
    DL_TRY(file->read_all(buffer.data(), block.length, block.at));
    if (hash_bytes(buffer.data(), block.length) != block.hash)
      return corrupt(path + ": the checksum of the block at byte " + std::to_string(block.at) + " is wrong");
    DL_TRY(reads(block.length));
  }
  return {};
}

// Reads the bytes of `extent` from a file, verified.
Result<std::string> read_extent(DataFile* file, const Extent& extent) {
  const std::vector<Block>& blocks = file->record().blocks;
  std::string bytes;
  bytes.reserve(extent.length);
  for (size_t b = find_block(blocks, extent.at); b < blocks.size() && blocks[b].at < extent.end(); ++b) {
    DL_TRY_ASSIGN(const unsigned char* const block, file->read_block(b));
    const uint64_t from = std::max(blocks[b].at, extent.at), to = std::min(blocks[b].end(), extent.end());
    bytes.append(reinterpret_cast<const char*>(block) + (from - blocks[b].at), to - from);
  }
  if (bytes.size() != extent.length) return corrupt(file->path() + ": no block holds the index of its packed tensors");
  return bytes;
}

Status add_packed_tensors(Io& io, const std::string& checkpoint, Manifest* manifest) {
  const size_t before = manifest->tensors.size();
  for (size_t f = 0; f < manifest->files.size(); ++f) {
    const FileRecord& record = manifest->files[f];
    if (!record.packed) continue;
    DL_TRY_ASSIGN(DataFile file, DataFile::open(io, checkpoint, *manifest, f));
    DL_TRY_ASSIGN(const std::string index, read_extent(&file, record.packed->index));
    Status added = parse_packed_index(index, *record.packed, f, &manifest->tensors);
    if (!added) return std::move(added).error().with_context(file.path());
  }
  if (manifest->tensors.size() == before) return {};
  if (!std::is_sorted(manifest->tensors.begin(), manifest->tensors.end(), by_path))
    std::sort(manifest->tensors.begin(), manifest->tensors.end(), by_path);
  const auto same = std::adjacent_find(manifest->tensors.begin(), manifest->tensors.end(),
                                       [](const TensorRecord& a, const TensorRecord& b) { return a.path == b.path; });
  if (same != manifest->tensors.end())
    return corrupt(checkpoint + ": two of its files have a tensor " + printable(same->path));
  return {};
}

}  // namespace

Result<Manifest> load_manifest(Io& io, const std::string& dir, const CheckpointName& name) {
  DL_TRY_ASSIGN(Manifest manifest, load_stored_manifest(io, dir, name));
  DL_TRY(add_packed_tensors(io, checkpoint_path(dir, name), &manifest));
  return manifest;
}

Result<Manifest> verify_checkpoint(Io& io, const std::string& dir, const CheckpointName& name,
                                   const Progress& progress) {
  DL_TRY_ASSIGN(Manifest manifest, load_manifest(io, dir, name));
  const std::string path = checkpoint_path(dir, name);
  const uint64_t total = manifest.total_bytes();
  uint64_t done = 0;
  const auto count = [&](uint64_t bytes) -> Status {
    done += bytes;
    if (progress && !progress(done, total)) return Error{Errc::kTimeout, "verify " + path + ": stopped"};
    return {};
  };
  for (size_t f = 0; f < manifest.files.size(); ++f) {
    DL_TRY_ASSIGN(DataFile file, DataFile::open(io, path, manifest, f));
    for (size_t b = 0; b < manifest.files[f].blocks.size(); ++b) {
      DL_TRY(file.read_block(b));
      DL_TRY(count(manifest.files[f].blocks[b].length));
    }
  }
  for (const MemberRecord& member : manifest.members) DL_TRY(verify_member(io, path, member, count));
  return manifest;
}

}  // namespace dl::ckpt
