// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/members.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "checkpoint/levels/verified_copy.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

Error about(Error error, const std::string& name) {
  return std::move(error).with_context("member '" + printable(name) + "'");
}

// A member that changed while it was copied would be a mixture of two states with right checksums. If stat() on its
// path shows another time or size, either the program put a new file in its place, and the open file is unchanged, or
// the program wrote to the open file. Reading it a second time shows which.
Status check_unchanged(Io& io, OpenMember* member, const std::vector<Block>& blocks,
                       std::vector<unsigned char>* buffer) {
  Io::Info now;
  const int rc = io.stat(member->file.path(), &now);
  if (rc == 0 && now.size == member->info.size && now.modified_ms == member->info.modified_ms) return {};
  const Error changed{
      Errc::kIo,
      member->file.path() + " was written to while it was saved; write a new file, and rename it to this name"};
  for (const Block& block : blocks) {
    DL_TRY(member->file.read_all(buffer->data(), block.length, block.at));
    if (hash_bytes(buffer->data(), block.length) != block.hash) return changed;
  }
  unsigned char more = 0;
  DL_TRY_ASSIGN(const size_t longer, member->file.read_some(&more, 1, member->info.size));
  if (longer > 0) return changed;
  return {};
}

Result<MemberRecord> write_member(Io& io, const std::string& directory, OpenMember* member,
                                  const MemberFileName& file_name) {
  MemberRecord record;
  record.name = member->name;
  record.rank = member->rank;
  record.file = format_member_file_name(file_name);
  record.size = member->info.size;
  const std::string path = directory + "/" + record.file;
  auto target = File::open(io, path, O_WRONLY | O_CREAT | O_EXCL);
  if (!target) return std::move(target).error();
  const auto copy = [&]() -> Status {
    DL_TRY(target->reserve(record.size));
    std::vector<unsigned char> buffer(std::min(kBlockBytes, std::max<uint64_t>(record.size, 1)));
    for (uint64_t at = 0; at < record.size;) {
      const uint64_t part = std::min<uint64_t>(buffer.size(), record.size - at);
      auto read = member->file.read_all(buffer.data(), part, at);
      if (!read && read.error().code == Errc::kCorrupt) read.error().code = Errc::kIo;  // the file became shorter
      DL_TRY(read);
      record.blocks.push_back(Block{at, part, hash_bytes(buffer.data(), part)});
      DL_TRY(target->write_all(buffer.data(), part, at));
      at += part;
    }
    record.root = table_root(record.blocks);
    DL_TRY(check_unchanged(io, member, record.blocks, &buffer));
    return target->sync_and_close();
  };
  auto copied = copy();
  if (!copied) {
    io.unlink(path);
    return std::move(copied).error();
  }
  return record;
}

}  // namespace

Result<std::vector<OpenMember>> open_members(Io& io, const Registry& registry, int rank) {
  std::vector<OpenMember> members;
  for (const auto& [name, member] : registry.members()) {
    if (!member.per_rank && rank != 0) continue;
    Io::Info info;
    const int rc = io.stat(member.path, &info);
    if (rc < 0) return about(io_error("stat", member.path, rc), name);
    if (!info.regular) return about(Error{Errc::kInvalid, member.path + " is not a regular file"}, name);
    auto file = File::open(io, member.path, O_RDONLY);
    if (!file) return about(std::move(file).error(), name);
    members.push_back(OpenMember{name, member.per_rank ? rank : -1, *std::move(file), info});
  }
  return members;
}

Result<std::vector<MemberRecord>> write_members(Io& io, const std::string& directory, int rank,
                                                std::vector<OpenMember>* members) {
  std::vector<MemberRecord> records;
  for (OpenMember& member : *members) {
    const MemberFileName file_name{static_cast<uint32_t>(rank), static_cast<uint32_t>(records.size())};
    auto record = write_member(io, directory, &member, file_name);
    if (!record) {
      for (const MemberRecord& written : records) io.unlink(directory + "/" + written.file);
      return about(std::move(record).error(), member.name);
    }
    records.push_back(*std::move(record));
  }
  return records;
}

Result<std::vector<StagedMember>> stage_members(Io& io, const std::string& checkpoint, const Manifest& manifest,
                                                const Registry& registry, int rank) {
  std::vector<StagedMember> staged;
  const auto stage = [&](const std::string& name, const RegisteredMember& member) -> Status {
    const int wanted = member.per_rank ? rank : -1;
    const auto record = std::find_if(manifest.members.begin(), manifest.members.end(),
                                     [&](const MemberRecord& r) { return r.name == name && r.rank == wanted; });
    if (record == manifest.members.end()) {
      if (member.per_rank && rank >= manifest.world_size) return {};
      return Error{Errc::kConflict, "the checkpoint does not have this member"};
    }
    StagedMember place{member.path + ".dlckpt-" + std::to_string(rank), member.path};
    io.unlink(place.temporary);  // a killed run may have left it
    DL_TRY(copy_verified(io, checkpoint + "/" + record->file, place.temporary,
                         StoredFile{record->file, record->size, &record->blocks, SIZE_MAX, 0}));
    staged.push_back(std::move(place));
    return {};
  };
  for (const auto& [name, member] : registry.members()) {
    auto outcome = stage(name, member);
    if (!outcome) {
      drop_members(io, staged);
      return about(std::move(outcome).error(), name);
    }
  }
  return staged;
}

Status install_members(Io& io, const std::vector<StagedMember>& staged) {
  for (const StagedMember& member : staged) {
    const int rc = io.rename(member.temporary, member.path);
    if (rc < 0) {
      drop_members(io, staged);
      return io_error("rename to", member.path, rc);
    }
  }
  return {};
}

void drop_members(Io& io, const std::vector<StagedMember>& staged) {
  for (const StagedMember& member : staged) io.unlink(member.temporary);
}

}  // namespace dl::ckpt
