// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/repair.h"

#include <fcntl.h>

#include <set>

#include "checkpoint/format/user_block.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/verify.h"

namespace dl::ckpt::tool {
namespace {

// Opens a file of one copy; none if that is impossible.
std::optional<File> open_if_there(Io& io, const std::string& path) {
  Io::Info info;
  if (io.stat(path, &info) < 0 || !info.regular) return std::nullopt;
  auto file = File::open(io, path, O_RDONLY);
  if (!file) return std::nullopt;
  return *std::move(file);
}

// The bytes of this copy's user block if they are sound and belong to this file.
std::optional<std::string> good_user_block(File* file, const Manifest& manifest, const FileRecord& record) {
  const CheckpointName& from = record.origin ? *record.origin : manifest.name;
  std::string bytes(kUserBlockBytes, '\0');
  if (!file->read_all(bytes.data(), bytes.size(), 0)) return std::nullopt;
  const auto block = decode_user_block(reinterpret_cast<const unsigned char*>(bytes.data()));
  if (!block || block->root != record.root || block->file_size != record.size || block->save_id != from.save_id ||
      block->step != from.step || (!record.origin && block->writer != record.writer))
    return std::nullopt;
  return bytes;
}

// Makes a user block anew: the manifest has everything in it that readers use.
std::string made_user_block(const Manifest& manifest, const FileRecord& record) {
  UserBlock block;
  const CheckpointName& from = record.origin ? *record.origin : manifest.name;
  block.save_id = from.save_id;
  block.step = from.step;
  block.writer = record.writer;
  block.world_size = static_cast<uint32_t>(manifest.world_size);
  block.file_size = record.size;
  block.table_at = record.table.at;
  block.block_count = record.blocks.size();
  block.root = record.root;
  block.complete = true;
  const auto bytes = encode_user_block(block);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Writes the parts of a data file outside its blocks.
Status write_frame(File* out, const Manifest& manifest, const FileRecord& record, std::vector<File>* copies) {
  std::string user_block;
  for (File& copy : *copies)
    if (auto bytes = good_user_block(&copy, manifest, record); bytes && user_block.empty())
      user_block = *std::move(bytes);
  if (user_block.empty()) user_block = made_user_block(manifest, record);
  DL_TRY(out->write_all(user_block.data(), user_block.size(), 0));
  // The table follows from the manifest. The spare rows after it are zeros, because reserved space is zero.
  const std::string table = encode_table(record.blocks);
  return out->write_all(table.data(), table.size(), record.table.at);
}

Status write_file(File* out, const Manifest& manifest, const StoredFile& file, std::vector<File>* copies) {
  DL_TRY(out->reserve(file.size));
  if (file.record) DL_TRY(write_frame(out, manifest, *file.record, copies));
  std::vector<unsigned char> buffer;
  for (const Block& block : *file.blocks) {
    bool good = false;
    for (File& copy : *copies) {
      good = read_block(&copy, block, &buffer).has_value();
      if (good) break;
    }
    if (!good)
      return Error{Errc::kCorrupt, file.name + ": bytes " + std::to_string(block.at) + " to " +
                                       std::to_string(block.end() - 1) + " are damaged in both copies"};
    DL_TRY(out->write_all(buffer.data(), block.length, block.at));
  }
  return {};
}

Status repair_file(Io& io, const std::string& checkpoint, const std::string& copy, const Manifest& manifest,
                   const StoredFile& stored) {
  std::vector<File> copies;
  for (const std::string& from : {checkpoint, copy})
    if (auto file = open_if_there(io, from + "/" + stored.name)) copies.push_back(*std::move(file));
  DL_TRY_ASSIGN(OutputFile out, OutputFile::create_over(io, checkpoint + "/" + stored.name));
  DL_TRY(write_file(&out.file(), manifest, stored, &copies));
  DL_TRY(out.sync());
  return out.publish();
}

// Replaces a manifest that cannot be read by that of the copy.
Result<Manifest> repair_manifest(Io& io, const std::string& dir, const CheckpointName& name, const std::string& copy) {
  DL_TRY_ASSIGN(const std::string text, read_small_file(io, copy + "/" + kManifestName, kMaxManifestBytes));
  auto manifest = parse_manifest(text);
  if (!manifest) return std::move(manifest).error().with_context(copy + "/" + kManifestName);
  if (manifest->name.save_id != name.save_id || manifest->name.step != name.step)
    return Error{Errc::kCorrupt, copy + " is another save: " + format_checkpoint_name(manifest->name)};
  const std::string path = checkpoint_path(dir, name) + "/" + kManifestName;
  DL_TRY_ASSIGN(OutputFile out, OutputFile::create_over(io, path));
  DL_TRY(out.file().write_all(text.data(), text.size(), 0));
  DL_TRY(out.sync());
  DL_TRY(out.publish());
  return manifest;
}

}  // namespace

Result<std::string> find_copy(Io& io, const std::string& path, const CheckpointName& name) {
  for (const std::string& candidate : {checkpoint_path(path, name), path}) {
    const std::string base = candidate.substr(candidate.rfind('/') + 1);
    const auto parsed = parse_checkpoint_name(base);
    Io::Info info;
    if (parsed && parsed->save_id == name.save_id && parsed->step == name.step && io.stat(candidate, &info) == 0 &&
        info.directory)
      return candidate;
  }
  return Error{Errc::kNotFound, "no copy of " + format_checkpoint_name(name) + " in " + path};
}

Result<std::vector<std::string>> repair(Io& io, const std::string& dir, const CheckpointName& name,
                                        const Verdict& verdict, const std::string& copy) {
  const std::string checkpoint = checkpoint_path(dir, name);
  std::vector<std::string> mended;
  // Without a manifest nothing could be judged before; now the files are.
  Verdict judged = verdict;
  if (!judged.manifest) {
    DL_TRY(repair_manifest(io, dir, name, copy));
    mended.emplace_back(kManifestName);
    judged = judge(io, dir, name, Depth::kFull, nullptr);
    if (!judged.manifest) return Error{Errc::kCorrupt, judged.reason};
  }
  std::set<size_t> bad;
  for (const Damage& damage : judged.damage) bad.insert(damage.file);
  Status outcome;
  for (const size_t index : bad) {
    const StoredFile stored = stored_file(*judged.manifest, index);
    auto done = repair_file(io, checkpoint, copy, *judged.manifest, stored);
    if (done) mended.push_back(stored.name);
    if (!done && outcome) outcome = std::move(done);
  }
  if (!outcome) return std::move(outcome).error();
  return mended;
}

}  // namespace dl::ckpt::tool
