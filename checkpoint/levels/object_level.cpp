// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/levels/object_level.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "checkpoint/store/directory.h"
#include "checkpoint/store/retire.h"
#include "checkpoint/store/verify.h"

namespace dl::ckpt {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr size_t kToldBytes = size_t{1} << 20;  // what is handed on at once, so that it is seen that bytes move
constexpr uint64_t kMostNoteBytes = uint64_t{1} << 20;

std::string key_of(const CheckpointName& name, const std::string& file) {
  return format_checkpoint_name(name) + "/" + file;
}

bool may_pass(const Error& error) {
  return error.code == Errc::kBusy || error.code == Errc::kTimeout;
}

// Calls work() until it succeeds, fails with what will not pass, or was tried often enough. got_on(): whether the last
// try moved anything; then the tries begin again.
template <typename Work, typename GotOn>
auto patiently(const ObjectLevel& level, const Work& work, const GotOn& got_on) -> decltype(work()) {
  int64_t pause_ms = level.pause_ms;
  for (int tried = 1;; ++tried) {
    auto result = work();
    if (result || !may_pass(result.error())) return result;
    if (got_on()) tried = 1, pause_ms = level.pause_ms;
    if (tried >= level.tries) return result;
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    pause_ms *= 2;
  }
}
template <typename Work>
auto patiently(const ObjectLevel& level, const Work& work) -> decltype(work()) {
  return patiently(level, work, [] { return false; });
}

Status put_text(ObjectLevel& level, const std::string& key, const std::string& text) {
  return patiently(level, [&] {
    bool given = false;
    return level.put(key, text.size(), [&]() -> Result<std::string_view> {
      if (given) return std::string_view();
      given = true;
      return std::string_view(text);
    });
  });
}

// The sizes of the objects of a checkpoint, by key.
Result<std::map<std::string, uint64_t>> sizes_of(ObjectLevel& level, const CheckpointName& name) {
  DL_TRY_ASSIGN(const std::vector<ObjectLevel::Object> objects,
                patiently(level, [&] { return level.list(format_checkpoint_name(name)); }));
  std::map<std::string, uint64_t> sizes;
  for (const ObjectLevel::Object& object : objects) sizes[object.key] = object.size;
  return sizes;
}

Result<std::string> read_text(ObjectLevel& level, const std::string& key, uint64_t size, uint64_t most) {
  if (size > most) return Error{Errc::kCorrupt, key + ": it is larger than any manifest"};
  std::string text;
  DL_TRY(patiently(level, [&] {
    text.clear();
    return level.read(key, 0, size, [&](std::string_view piece) {
      text += piece;
      return Status();
    });
  }));
  return text;
}

Result<std::string> read_manifest(ObjectLevel& level, const CheckpointName& name,
                                  const std::map<std::string, uint64_t>& sizes) {
  const std::string key = key_of(name, kManifestName);
  const auto size = sizes.find(key);
  if (size == sizes.end()) return Error{Errc::kNotFound, format_checkpoint_name(name) + " is not in the object store"};
  return read_text(level, key, size->second, kMaxManifestBytes);
}

Result<Manifest> parse_own_manifest(const CheckpointName& name, const std::string& text) {
  const std::string key = key_of(name, kManifestName);
  auto manifest = parse_manifest(text);
  if (!manifest) return std::move(manifest).error().with_context(key);
  if (manifest->name.save_id != name.save_id || manifest->name.step != name.step)
    return Error{Errc::kCorrupt, key + ": it belongs to another save: " + format_checkpoint_name(manifest->name)};
  return manifest;
}

Status fetch_file(ObjectLevel& level, const CheckpointName& name, const StoredFile& file,
                  const std::map<std::string, uint64_t>& sizes, Io& io, const std::string& into,
                  const std::function<void(uint64_t)>& arrived) {
  const std::string key = key_of(name, file.name);
  const auto size = sizes.find(key);
  if (size == sizes.end()) return Error{Errc::kCorrupt, key + ": it is not there"};
  if (size->second != file.size)
    return Error{Errc::kCorrupt,
                 key + ": it has " + std::to_string(size->second) + " bytes instead of " + std::to_string(file.size)};
  DL_TRY_ASSIGN(File target, File::open(io, into + "/" + file.name, O_WRONLY | O_CREAT | O_EXCL));
  DL_TRY(target.reserve(file.size));
  uint64_t at = 0, tried_from = 0;
  const auto take = [&](std::string_view piece) -> Status {
    if (piece.size() > file.size - at) return Error{Errc::kCorrupt, key + ": it grows while it is read"};
    DL_TRY(target.write_all(piece.data(), piece.size(), at));
    at += piece.size();
    arrived(piece.size());
    return {};
  };
  DL_TRY(patiently(
      level,
      [&] {
        tried_from = at;
        return at == file.size ? Status() : level.read(key, at, file.size - at, take);
      },
      [&] { return at > tried_from; }));
  return target.sync_and_close();
}

// Every block is verified on its way. given: how many bytes of the file the store has been given. kCorrupt: the file is
// damaged.
Status send_file(Io& io, const std::string& dir, const Manifest& manifest, const StoredFile& file, ObjectLevel& level,
                 const std::function<void(uint64_t)>& given) {
  const std::string checkpoint = checkpoint_path(dir, manifest.name), path = checkpoint + "/" + file.name;
  if (file.data_file != SIZE_MAX) {  // checks user block and table, which no block's checksum covers
    auto head = DataFile::open(io, checkpoint, manifest, file.data_file);
    if (!head) return std::move(head).error();
  }
  DL_TRY_ASSIGN(File source, File::open(io, path, O_RDONLY));
  std::vector<char> buffer;
  const std::vector<Block>& blocks = *file.blocks;
  return patiently(level, [&] {
    uint64_t at = 0;
    size_t block = 0;
    std::string_view rest;  // verified, and not handed on yet
    const auto hand_on = [&] {
      given(at - rest.size());
      const std::string_view piece = rest.substr(0, kToldBytes);
      rest.remove_prefix(piece.size());
      return piece;
    };
    return level.put(key_of(manifest.name, file.name), file.size, [&]() -> Result<std::string_view> {
      if (at == file.size || !rest.empty()) return hand_on();
      const bool covered = block < blocks.size() && blocks[block].at == at;
      const uint64_t end = covered ? blocks[block].end() : block < blocks.size() ? blocks[block].at : file.size;
      const auto size = static_cast<size_t>(covered ? end - at : std::min<uint64_t>(end - at, kPieceBytes));
      if (buffer.size() < size) buffer.resize(size);
      DL_TRY(source.read_all(buffer.data(), size, at));
      if (covered && hash_bytes(buffer.data(), size) != blocks[block++].hash)
        return Error{Errc::kCorrupt, path + ": the checksum of the block at byte " + std::to_string(at) + " is wrong"};
      at += size;
      rest = std::string_view(buffer.data(), size);
      return hand_on();
    });
  });
}

Status put_pin(Io& io, const std::string& dir, const CheckpointName& name, ObjectLevel& level) {
  const auto note = pin_note(io, dir, name);
  if (!note && note.error().code == Errc::kNotFound) return {};  // unpinned meanwhile
  return put_text(level, key_of(name, kPinnedName), note && !note->empty() ? *note : "\n");
}

// The pin of a checkpoint that is not committed there yet. `sizes`: what an earlier try has left.
Status send_pin_ahead(Io& io, const std::string& dir, const CheckpointName& name, ObjectLevel& level,
                      const std::map<std::string, uint64_t>& sizes) {
  const std::string key = key_of(name, kPinnedName);
  if (is_pinned(io, dir, name)) return put_pin(io, dir, name, level);
  if (sizes.count(key) == 0) return {};
  return patiently(level, [&] { return level.erase(key); });
}

// A pin whose note cannot be read is a pin all the same.
Status fetch_pin(ObjectLevel& level, const CheckpointName& name, const std::map<std::string, uint64_t>& sizes, Io& io,
                 const std::string& into) {
  const auto size = sizes.find(key_of(name, kPinnedName));
  if (size == sizes.end()) return {};
  const auto note = read_text(level, size->first, size->second, kMostNoteBytes);
  return write_new_file(io, into + "/" + kPinnedName, note ? *note : "\n", /*durable=*/true);
}

// Commits the checkpoint after all files are there; it checks their sizes first. `text` is that of the manifest in the
// directory.
Status commit_checkpoint(const Manifest& manifest, const std::string& text, ObjectLevel& level) {
  DL_TRY_ASSIGN(const auto sizes, sizes_of(level, manifest.name));
  for (const StoredFile& file : stored_files(manifest)) {
    const std::string key = key_of(manifest.name, file.name);
    const auto size = sizes.find(key);
    if (size == sizes.end() || size->second != file.size) return Error{Errc::kIo, key + " did not arrive whole"};
  }
  return put_text(level, key_of(manifest.name, kManifestName), text);
}

// The checkpoints among these objects, newest first; with `committed` those that have a manifest, else those that have
// none.
std::vector<CheckpointName> names_in(const std::vector<ObjectLevel::Object>& objects, bool committed) {
  std::map<std::string, bool> folders;
  for (const ObjectLevel::Object& object : objects) {
    const size_t slash = object.key.find('/');
    if (slash == std::string::npos) continue;
    folders[object.key.substr(0, slash)] |= object.key.substr(slash + 1) == kManifestName;
  }
  std::vector<CheckpointName> names;
  for (const auto& [folder, has_manifest] : folders)
    if (const auto name = parse_checkpoint_name(folder); name && has_manifest == committed) names.push_back(*name);
  std::sort(names.begin(), names.end(), newer);
  return names;
}

// The save ids of all that have a file PINNED.
std::set<uint64_t> pins_in(const std::vector<ObjectLevel::Object>& objects) {
  const std::string ending = std::string("/") + kPinnedName;
  std::set<uint64_t> pinned;
  for (const ObjectLevel::Object& object : objects) {
    const size_t slash = object.key.find('/');
    if (slash == std::string::npos || object.key.substr(slash) != ending) continue;
    if (const auto name = parse_checkpoint_name(object.key.substr(0, slash))) pinned.insert(name->save_id);
  }
  return pinned;
}

}  // namespace

Result<ObjectListing> list_objects(ObjectLevel& level) {
  DL_TRY_ASSIGN(const std::vector<ObjectLevel::Object> objects, patiently(level, [&] { return level.list(""); }));
  return ObjectListing{names_in(objects, /*committed=*/true), names_in(objects, /*committed=*/false), pins_in(objects)};
}

Result<std::vector<CheckpointName>> list_checkpoints(ObjectLevel& level) {
  DL_TRY_ASSIGN(ObjectListing listing, list_objects(level));
  return std::move(listing.committed);
}

Result<Manifest> load_object_manifest(ObjectLevel& level, const CheckpointName& name) {
  DL_TRY_ASSIGN(const auto sizes, sizes_of(level, name));
  DL_TRY_ASSIGN(const std::string text, read_manifest(level, name, sizes));
  return parse_own_manifest(name, text);
}

Result<bool> send_checkpoint(Io& io, const std::string& dir, const CheckpointName& name, ObjectLevel& level,
                             const Moved& moved) {
  const std::string key = key_of(name, kManifestName);
  DL_TRY_ASSIGN(const Manifest manifest, load_stored_manifest(io, dir, name));
  DL_TRY_ASSIGN(const std::string text,
                read_small_file(io, checkpoint_path(dir, name) + "/" + kManifestName, kMaxManifestBytes));
  DL_TRY_ASSIGN(const auto sizes, sizes_of(level, name));
  if (const auto sent = sizes.find(key); sent != sizes.end()) {  // it was sent before, and must not be touched
    DL_TRY_ASSIGN(const std::string there, read_text(level, key, sent->second, kMaxManifestBytes));
    if (there == text) return false;
    return Error{Errc::kCorrupt, key + ": the store has another manifest of the same save already"};
  }
  const std::vector<StoredFile> files = stored_files(manifest);
  uint64_t done = 0, all = 0;
  for (const StoredFile& file : files) all += file.size;
  Status sent;
  for (const StoredFile& file : files) {
    const auto there = sizes.find(key_of(name, file.name));
    const bool whole = there != sizes.end() && there->second == file.size;
    const auto given = [&](uint64_t bytes) {
      if (moved) moved(done + bytes, all);
    };
    if (!whole) sent = send_file(io, dir, manifest, file, level, given);
    if (!sent) break;
    done += file.size;
    if (moved) moved(done, all);
  }
  if (sent) sent = send_pin_ahead(io, dir, name, level, sizes);
  if (sent) sent = commit_checkpoint(manifest, text, level);
  if (sent) return true;
  // What is left does not count without its manifest. After what may pass, the next try goes on from it.
  if (!may_pass(sent.error())) ignore(remove_checkpoint(level, name), "retire_objects() removes it");
  return std::move(sent).error();
}

Status send_pins(Io& io, const std::string& dir, ObjectLevel& level, const ObjectListing& there) {
  DL_TRY_ASSIGN(const std::vector<CheckpointName> here, scan_checkpoints(io, dir));
  const auto is_here = [&](const CheckpointName& name) {
    return std::any_of(here.begin(), here.end(), [&](const CheckpointName& other) {
      return other.save_id == name.save_id && other.step == name.step;
    });
  };
  for (const CheckpointName& name : there.committed) {
    if (!is_here(name)) continue;
    const bool pinned_there = there.pinned.count(name.save_id) > 0;
    if (!pinned_there && is_pinned(io, dir, name)) DL_TRY(put_pin(io, dir, name, level));
    if (pinned_there && was_unpinned(io, dir, name)) DL_TRY(unpin_object(level, name));
  }
  return {};
}

Status pin_object(ObjectLevel& level, const CheckpointName& name, const std::string& note) {
  DL_TRY(put_text(level, key_of(name, kPinnedName), note + "\n"));
  DL_TRY_ASSIGN(const auto sizes, sizes_of(level, name));
  if (sizes.count(key_of(name, kManifestName)) > 0) return {};
  DL_TRY(unpin_object(level, name));
  return Error{Errc::kNotFound, format_checkpoint_name(name) + " was removed from the object store meanwhile"};
}

Status unpin_object(ObjectLevel& level, const CheckpointName& name) {
  return patiently(level, [&] { return level.erase(key_of(name, kPinnedName)); });
}

Status fetch_checkpoint(ObjectLevel& level, const CheckpointName& name, Io& io, const std::string& dir,
                        const Moved& moved) {
  DL_TRY_ASSIGN(const auto sizes, sizes_of(level, name));
  DL_TRY_ASSIGN(const std::string text, read_manifest(level, name, sizes));
  DL_TRY_ASSIGN(const Manifest manifest, parse_own_manifest(name, text));
  DL_TRY(discard_attempt(io, dir, name));
  const std::string attempt = attempt_path(dir, name);
  const int rc = io.mkdir(attempt);
  if (rc < 0) return io_error("make", attempt, rc);
  const std::vector<StoredFile> files = stored_files(manifest);
  uint64_t done = 0, all = 0;
  for (const StoredFile& file : files) all += file.size;
  const auto arrived = [&](uint64_t bytes) {
    done += bytes;
    if (moved) moved(done, all);
  };
  Status fetched;
  for (const StoredFile& file : files) {
    if (fetched) fetched = fetch_file(level, name, file, sizes, io, attempt, arrived);
    if (fetched) fetched = verify_stored_file(io, attempt, manifest, file);
  }
  if (fetched) fetched = fetch_pin(level, name, sizes, io, attempt);
  if (fetched) fetched = publish(io, dir, name, text);
  if (!fetched) ignore(discard_attempt(io, dir, name), "the next run removes what is left");
  return fetched;
}

Status remove_checkpoint(ObjectLevel& level, const CheckpointName& name) {
  DL_TRY(patiently(level, [&] { return level.erase(key_of(name, kManifestName)); }));
  return patiently(level, [&] { return level.erase_folder(format_checkpoint_name(name)); });
}

Result<std::vector<CheckpointName>> retire_objects(ObjectLevel& level, const RetentionPolicy& policy,
                                                   const CheckpointName& newest,
                                                   const std::function<bool(const CheckpointName&)>& pinned) {
  DL_TRY_ASSIGN(const std::vector<ObjectLevel::Object> objects, patiently(level, [&] { return level.list(""); }));
  std::map<std::string, uint64_t> sizes;
  for (const ObjectLevel::Object& object : objects) sizes[object.key] = object.size;
  const std::set<uint64_t> pinned_there = pins_in(objects);
  std::vector<CheckpointFacts> facts;
  for (const CheckpointName& name : names_in(objects, /*committed=*/true)) {
    CheckpointFacts fact{name, {}, pinned_there.count(name.save_id) > 0 || pinned(name), true, 0};
    if (policy.best) {  // only manifests know metrics
      const std::string key = key_of(name, kManifestName);
      DL_TRY_ASSIGN(const std::string text, read_text(level, key, sizes[key], kMaxManifestBytes));
      auto manifest = parse_manifest(text);
      fact.intact = manifest.has_value();
      if (manifest) fact.metrics = manifest->metrics;
    }
    facts.push_back(std::move(fact));
  }
  std::vector<CheckpointName> removed;
  for (const RetentionVerdict& verdict : decide_retention(std::move(facts), policy, newest)) {
    if (!verdict.remove) continue;
    DL_TRY(remove_checkpoint(level, verdict.name));
    removed.push_back(verdict.name);
  }
  for (const CheckpointName& name : names_in(objects, /*committed=*/false))
    if (newer(newest, name)) DL_TRY(remove_checkpoint(level, name));
  return removed;
}

}  // namespace dl::ckpt
