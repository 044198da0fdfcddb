// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/pmix_server.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/contract/env_names.h"
#include "common/process/child_process.h"

extern char** environ;

namespace dl::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kEndLimit{1000};
constexpr const char* kLock = "lock";

std::string parent_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// A folder that belongs to the user, so that nobody else can put files or links there.
std::string own_folder() {
  const std::string tmp = environment_value("TMPDIR").empty() ? "/tmp" : environment_value("TMPDIR");
  return tmp + "/dl-pmix-" + std::to_string(::getuid());
}

Status check_owner(const std::string& folder) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) == 0 && (!S_ISDIR(status.st_mode) || status.st_uid != ::getuid()))
    return Error{
        Errc::kConflict,
        folder + " is not a folder, or belongs to another user; remove it, or set TMPDIR to a folder of your own"};
  return {};
}

}  // namespace

// Removes folders whose lock nobody holds. A folder without a lock file was left before it got one, or is just being
// made; in that case its maker makes another.
void PmixServer::remove_left() {
  const std::string parent = own_folder();
  if (!check_owner(parent)) return;
  std::error_code unused;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, unused)) {
    const UniqueFd lock(::open((entry.path() / kLock).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!lock)
      ::rmdir(entry.path().c_str());
    else if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0)
      fs::remove_all(entry.path(), unused);
  }
  ::rmdir(parent.c_str());  // succeeds only if no folder is left in it
}

Status PmixServer::make_folder() {
  const std::string parent = own_folder();
  remove_left();
  for (int tries = 0; folder_.empty(); ++tries) {  // another agent may be removing the parent folder at this moment
    if (::mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST) return errno_error("create " + parent, errno);
    DL_TRY(check_owner(parent));
    std::string folder = parent + "/XXXXXX";
    const bool made = ::mkdtemp(folder.data()) != nullptr;
    const std::string lock = folder + "/" + kLock;
    if (made) folder_lock_.reset(::open(lock.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (made && folder_lock_ && ::flock(folder_lock_.get(), LOCK_EX | LOCK_NB) == 0 &&
        ::access(lock.c_str(), F_OK) == 0) {
      folder_ = folder;
    } else if ((errno != ENOENT && errno != EWOULDBLOCK) || tries > 9) {
      return errno_error("create a folder in " + parent, errno);
    }
  }
  return {};
}

Status PmixServer::start(int rank) {
  const std::string program = environment_value(env::kPmixServer);
  if (program.empty() || environment_value("SLURM_LOCALID") != "0") return {};
  if (const auto ranks = parse_int(environment_value(env::kPmixRanks), 1, INT_MAX); ranks && rank >= *ranks) return {};
  DL_TRY(make_folder());
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error("create a pipe", errno);
  const UniqueFd theirs(ends[0]);
  alive_.reset(ends[1]);
  SpawnOptions options;
  options.argv = {program, folder_};
  std::vector<std::string> environment = {std::string(env::kControlRank) + "=" + std::to_string(rank)};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    if (std::strncmp(*entry, env::kControlRank, std::strlen(env::kControlRank)) != 0) environment.emplace_back(*entry);
  options.environment = std::move(environment);
  options.stdin_fd = theirs.get();
  options.new_process_group = true;
  auto pid = spawn_process(options);
  if (!pid) return std::move(pid).error();
  pid_ = *pid;
  return {};
}

void PmixServer::reaped(pid_t pid) {
  if (pid == pid_) pid_ = 0;
}

PmixServer::~PmixServer() {
  alive_.reset();
  if (pid_ > 0) end_child(pid_, kEndLimit);
  if (folder_.empty()) return;
  std::error_code unused;
  fs::remove_all(folder_, unused);
  ::rmdir(parent_of(folder_).c_str());  // succeeds for the last agent alone
}

}  // namespace dl::agent
