// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/levels/object_level.h"

#include <fcntl.h>

#include <algorithm>

#include "checkpoint/store/directory.h"
#include "checkpoint/store/verify.h"

namespace dl::ckpt {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;

std::string key_of(const CheckpointName& name, const std::string& file) {
  return format_checkpoint_name(name) + "/" + file;
}

Status put_text(ObjectLevel& level, const std::string& key, const std::string& text) {
  bool given = false;
  return level.put(key, text.size(), [&]() -> Result<std::string_view> {
    if (given) return std::string_view();
    given = true;
    return std::string_view(text);
  });
}

Result<std::string> read_text(ObjectLevel& level, const std::string& key, uint64_t most) {
  DL_TRY_ASSIGN(const uint64_t size, level.size(key));
  if (size > most) return Error{Errc::kCorrupt, key + ": it is larger than any manifest"};
  std::string text(size, '\0');
  DL_TRY(level.read(key, 0, text.size(), text.data()));
  return text;
}

Status fetch_file(ObjectLevel& level, const CheckpointName& name, const StoredFile& file, Io& io,
                  const std::string& into) {
  const std::string key = key_of(name, file.name);
  DL_TRY_ASSIGN(const uint64_t size, level.size(key));
  if (size != file.size)
    return Error{Errc::kCorrupt,
                 key + ": it has " + std::to_string(size) + " bytes instead of " + std::to_string(file.size)};
  DL_TRY_ASSIGN(File target, File::open(io, into + "/" + file.name, O_WRONLY | O_CREAT | O_EXCL));
  DL_TRY(target.reserve(size));
  std::vector<unsigned char> buffer(std::min<uint64_t>(size, kPieceBytes));
  for (uint64_t at = 0; at < size; at += buffer.size()) {
    const auto part = static_cast<size_t>(std::min<uint64_t>(buffer.size(), size - at));
    DL_TRY(level.read(key, at, part, buffer.data()));
    DL_TRY(target.write_all(buffer.data(), part, at));
  }
  return target.sync_and_close();
}

}  // namespace

Result<std::vector<CheckpointName>> list_checkpoints(ObjectLevel& level) {
  DL_TRY_ASSIGN(const std::vector<std::string> keys, level.keys("step-"));
  std::vector<CheckpointName> names;
  for (const std::string& key : keys) {
    const size_t slash = key.find('/');
    if (slash == std::string::npos || key.substr(slash + 1) != kManifestName) continue;
    if (const auto name = parse_checkpoint_name(std::string_view(key).substr(0, slash))) names.push_back(*name);
  }
  std::sort(names.begin(), names.end(),
            [](const CheckpointName& a, const CheckpointName& b) { return a.save_id > b.save_id; });
  return names;
}

Status send_file(Io& io, const std::string& dir, const Manifest& manifest, const StoredFile& file, ObjectLevel& level) {
  const std::string checkpoint = checkpoint_path(dir, manifest.name), path = checkpoint + "/" + file.name;
  if (file.data_file != SIZE_MAX) {  // checks user block and table, which no block's checksum covers
    auto head = DataFile::open(io, checkpoint, manifest, file.data_file);
    if (!head) return std::move(head).error();
  }
  DL_TRY_ASSIGN(File source, File::open(io, path, O_RDONLY));
  std::vector<char> buffer;
  uint64_t at = 0;
  size_t block = 0;
  const std::vector<Block>& blocks = *file.blocks;
  return level.put(key_of(manifest.name, file.name), file.size, [&]() -> Result<std::string_view> {
    if (at == file.size) return std::string_view();
    const bool covered = block < blocks.size() && blocks[block].at == at;
    const uint64_t end = covered ? blocks[block].end() : block < blocks.size() ? blocks[block].at : file.size;
    const auto size = static_cast<size_t>(covered ? end - at : std::min<uint64_t>(end - at, kPieceBytes));
    if (buffer.size() < size) buffer.resize(size);
    DL_TRY(source.read_all(buffer.data(), size, at));
    if (covered && hash_bytes(buffer.data(), size) != blocks[block++].hash)
      return Error{Errc::kCorrupt, path + ": the checksum of the block at byte " + std::to_string(at) + " is wrong"};
    at += size;
    return std::string_view(buffer.data(), size);
  });
}

Status commit_checkpoint(const Manifest& manifest, const std::string& text, ObjectLevel& level) {
  for (const StoredFile& file : stored_files(manifest)) {
    DL_TRY_ASSIGN(const uint64_t size, level.size(key_of(manifest.name, file.name)));
    if (size != file.size) return Error{Errc::kIo, key_of(manifest.name, file.name) + " did not arrive whole"};
  }
  return put_text(level, key_of(manifest.name, kManifestName), text);
}

Status send_checkpoint(Io& io, const std::string& dir, const CheckpointName& name, ObjectLevel& level) {
  const std::string key = key_of(name, kManifestName);
  DL_TRY_ASSIGN(const Manifest manifest, load_stored_manifest(io, dir, name));
  DL_TRY_ASSIGN(const std::string text,
                read_small_file(io, checkpoint_path(dir, name) + "/" + kManifestName, kMaxManifestBytes));
  auto there = read_text(level, key, kMaxManifestBytes);
  if (there && *there == text) return {};  // it was sent before, and must not be touched
  if (there) return Error{Errc::kCorrupt, key + ": the store has another manifest of the same save already"};
  if (there.error().code != Errc::kNotFound) return std::move(there).error();
  Status sent;
  for (const StoredFile& file : stored_files(manifest))
    if (sent) sent = send_file(io, dir, manifest, file, level);
  if (sent) sent = commit_checkpoint(manifest, text, level);
  if (!sent) ignore(remove_checkpoint(level, name), "what is left there does not count without its manifest");
  return sent;
}

Status fetch_checkpoint(ObjectLevel& level, const CheckpointName& name, Io& io, const std::string& dir) {
  const std::string key = key_of(name, kManifestName);
  DL_TRY_ASSIGN(const std::string text, read_text(level, key, kMaxManifestBytes));
  auto manifest = parse_manifest(text);
  if (!manifest) return std::move(manifest).error().with_context(key);
  if (manifest->name.save_id != name.save_id || manifest->name.step != name.step)
    return Error{Errc::kCorrupt, key + ": it belongs to another save: " + format_checkpoint_name(manifest->name)};
  DL_TRY(discard_attempt(io, dir, name));
  const std::string attempt = attempt_path(dir, name);
  const int rc = io.mkdir(attempt);
  if (rc < 0) return io_error("make", attempt, rc);
  Status fetched;
  for (const StoredFile& file : stored_files(*manifest)) {
    if (fetched) fetched = fetch_file(level, name, file, io, attempt);
    if (fetched) fetched = verify_stored_file(io, attempt, *manifest, file);
  }
  if (fetched) fetched = publish(io, dir, name, text);
  if (!fetched) ignore(discard_attempt(io, dir, name), "the next run removes what is left");
  return fetched;
}

Status remove_checkpoint(ObjectLevel& level, const CheckpointName& name) {
  DL_TRY(level.erase(key_of(name, kManifestName)));
  DL_TRY_ASSIGN(const std::vector<std::string> keys, level.keys(format_checkpoint_name(name) + "/"));
  for (const std::string& key : keys) DL_TRY(level.erase(key));
  return {};
}

}  // namespace dl::ckpt
