// SPDX-License-Identifier: Apache-2.0
// The levels in a save. recover.cpp has their part in a restore, partner.cpp the copies on other nodes.
#include "checkpoint/levels/levels.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "checkpoint/format/hash.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "checkpoint/store/verify.h"

namespace dl::ckpt {
namespace {

// A text that is the same however the path of a directory is written.
std::string identity_of(const std::string& directory) {
  char* resolved = ::realpath(directory.c_str(), nullptr);
  const std::string path = resolved ? resolved : directory;
  ::free(resolved);
  return to_hex(hash_bytes(path.data(), path.size())).substr(0, 16);
}

std::string rank_directory(int rank) {
  std::string digits = std::to_string(rank);
  return "r" + std::string(5 - std::min<size_t>(digits.size(), 5), '0') + digits;
}

Status make_directory(Io& io, const std::string& path) {
  const int rc = io.mkdir(path);
  if (rc == 0 || rc == -EEXIST) return {};
  Io::Info info;  // mkdir may report "read-only" even if the directory exists
  if (io.stat(path, &info) == 0 && info.directory) return {};
  return io_error("make", path, rc);
}

}  // namespace

std::string this_node() {
  std::string name;
  if (const char* given = std::getenv("DL_CHECKPOINT_NODE"); given && *given) {
    name = given;
  } else {
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    name = host;
  }
  for (char& c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    if (!plain) c = '_';
  }
  if (name.empty() || name.front() == '.') name = "node" + name;
  return name.substr(0, 200);
}

Status agree_all(Group& group, const Status& mine) {
  auto messages = group.gather(mine ? say_ok() : say_error(mine.error()));
  if (group.rank() != 0) {
    if (!messages) return std::move(messages).error();
    DL_TRY_ASSIGN(const std::string verdict, group.broadcast("", 4));
    auto heard = hear(verdict);
    if (!heard) return std::move(heard).error();
    return {};
  }
  Status all;
  if (!messages) {
    all = std::move(messages).error();
  } else if (auto heard = hear_all(*messages); !heard) {
    all = std::move(heard).error();
  }
  auto told = group.broadcast(all ? say_ok() : say_error(all.error()), 1);
  if (!told && all) return std::move(told).error();
  return all;
}

Levels::Levels(Io& io, LevelSettings settings) : io_(io), settings_(std::move(settings)) {
  if (!active()) return;
  node_dir_ = settings_.local + "/dlckpt-" + identity_of(settings_.shared) + "/" + settings_.node;
  own_ = node_dir_ + "/" + rank_directory(settings_.rank);
}

Status Levels::open() {
  if (!active()) return {};
  const std::string root = node_dir_.substr(0, node_dir_.rfind('/'));
  for (const std::string& path : {settings_.local, root}) DL_TRY(make_directory(io_, path));
  // The name can be guessed, and LOCAL is often a directory in which all users may write. A directory that another user
  // has put there must not be restored from.
  struct stat info {};
  if (::lstat(root.c_str(), &info) == 0 && (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()))
    return Error{Errc::kDenied,
                 root + " belongs to another user; the node-local directory must be yours: choose another for local="};
  for (const std::string& path : {node_dir_, own_}) DL_TRY(make_directory(io_, path));
  return {};
}

Result<std::string> Levels::begin(const CheckpointName& name) {
  // This is not done in open(): the process that opens may not hold the lease, and the files here may belong to another
  // run's attempt.
  DL_TRY(collect_garbage(io_, own_, ""));
  const std::string attempt = attempt_path(own_, name);
  const int rc = io_.mkdir(attempt);
  if (rc < 0) return io_error("make", attempt, rc);
  return attempt;
}

Result<std::string> Levels::commit_local(Group& group, const CheckpointName& name, const Result<std::string>& text) {
  std::string said;
  if (group.rank() == 0) said = text ? say_ok(*text) : say_error(text.error());
  DL_TRY_ASSIGN(const std::string message, group.broadcast(said, 4));
  DL_TRY_ASSIGN(std::string manifest, hear(message));
  DL_TRY(agree_all(group, publish(io_, own_, name, manifest)));
  return manifest;
}

Status Levels::copy_to_shared(const Manifest& manifest) {
  const std::string source = checkpoint_path(own_, manifest.name);
  const std::string target = attempt_path(settings_.shared, manifest.name);
  for (const StoredFile& file : stored_files(manifest)) {
    if (file.writer != static_cast<uint32_t>(settings_.rank)) continue;
    if (link_from_earlier(io_, settings_.shared, manifest, file, target + "/" + file.name)) continue;
    DL_TRY(copy_verified(io_, source + "/" + file.name, target + "/" + file.name, file));
    if (file.data_file != SIZE_MAX) {
      auto whole = DataFile::open(io_, target, manifest, file.data_file);
      if (!whole) return std::move(whole).error();
    }
  }
  return {};
}

void Levels::retire_local(const CheckpointName& newest) {
  auto names = scan_checkpoints(io_, own_);
  if (!names) return;
  std::vector<CheckpointName> old;
  for (const CheckpointName& name : *names)
    if (name.save_id != newest.save_id) old.push_back(name);
  ignore(remove_checkpoints(io_, own_, old), "tried again after the next save");
}

void Levels::discard(const CheckpointName& name) {
  ignore(discard_attempt(io_, own_, name), "the next run removes what is left");
  // If this rank has committed but another one failed, the checkpoint does not count.
  ignore(remove_checkpoints(io_, own_, {name}), "the next run does not bring what is not whole");
}

}  // namespace dl::ckpt
