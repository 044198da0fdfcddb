// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/act_as.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "common/process/child_process.h"

namespace dl::ctl {
namespace {

// The user who started this program. It still matters after dlctl has taken on the rights of the job's user.
const uid_t kCaller = ::getuid();

constexpr rlim_t kMostMemory = rlim_t{1} << 30;
constexpr rlim_t kMostCpuS = 30;
constexpr size_t kMostText = 64 << 20;

// The rights for a user whom this machine does not know.
const Identity kNobody = {65534, 65534, ""};

// What the machine's name services say of a user is asked once: a list may have thousands of jobs, and where users are
// in a directory such as LDAP each question may go over the network.
struct Known {
  Identity identity;
  std::vector<gid_t> groups;  // empty: not asked yet; else at least the user's own
};
std::map<std::string, Known>& known_users() {
  static std::map<std::string, Known> users;
  return users;
}

Result<Identity> identity_of(const std::string& user) {
  const auto known = known_users().find(user);
  if (known != known_users().end()) return known->second.identity;
  const struct passwd* entry = ::getpwnam(user.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
  if (entry == nullptr)
    return Error{Errc::kDenied, fmt::format("user '{}' is not known on this machine, so dlctl cannot act with that "
                                            "user's rights; allowed: dlctl where the user is known",
                                            printable(user, 100))};
  const Identity identity{entry->pw_uid, entry->pw_gid, user};
  known_users()[user].identity = identity;
  return identity;
}

// The identity of a user id; its group is `group` if the id has no name.
Identity identity_of(uid_t user, gid_t group) {
  const struct passwd* entry = ::getpwuid(user);  // NOLINT(concurrency-mt-unsafe): one thread
  if (entry == nullptr) return Identity{user, group, ""};
  return Identity{entry->pw_uid, entry->pw_gid, entry->pw_name};
}

// The identity of the job's user, as Slurm reports it. If Slurm does not know the job, that of its directory's owner.
Result<Identity> owner_of(const Job& job) {
  const std::string& user = job.slurm ? job.slurm->user : job.accounted_user;
  if (!user.empty()) return identity_of(user);
  if (!job.has_dir()) return Identity{};
  struct stat status {};
  if (::lstat(job.dir.root().c_str(), &status) != 0) return errno_error(job.dir.root(), errno);
  if (S_ISLNK(status.st_mode)) {
    const uid_t linked_by = status.st_uid;
    if (::stat(job.dir.root().c_str(), &status) != 0) return errno_error(job.dir.root(), errno);
    if (linked_by != 0 && linked_by != status.st_uid)
      return Error{
          Errc::kDenied,
          fmt::format(
              "{} is a link that belongs to another user than the folder it leads to; allowed: the path of that folder",
              printable(job.dir.root(), 300))};
  }
  if (status.st_uid == 0) {
    if ((status.st_mode & 0022) != 0)
      return Error{Errc::kDenied, fmt::format("{} belongs to root and others may write to it, so dlrun has not made "
                                              "it; allowed: a job directory as dlrun makes them",
                                              printable(job.dir.root(), 300))};
    return Identity{};
  }
  return identity_of(status.st_uid, status.st_gid);
}

// All groups of a user who has a name.
const std::vector<gid_t>& groups_of(const Identity& who) {
  Known& known = known_users()[who.name];
  known.identity = who;
  for (size_t room = 64; known.groups.empty(); room *= 2) {
    std::vector<gid_t> groups(room);
    int count = static_cast<int>(room);
    if (::getgrouplist(who.name.c_str(), who.gid, groups.data(), &count) < 0) continue;  // there are more
    groups.resize(static_cast<size_t>(count));
    known.groups = std::move(groups);
  }
  return known.groups;
}

bool take_groups(const Identity& who) {
  if (who.name.empty()) return ::setgroups(0, nullptr) == 0;
  const std::vector<gid_t>& groups = groups_of(who);
  return ::setgroups(groups.size(), groups.data()) == 0;
}

// What other programs may need of root's environment. Its other values may be secrets, and whoever has a process's
// rights can read the environment of a program that it starts.
bool is_for_others(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "PATH", "LD_LIBRARY_PATH", "HOME",    "USER",  "LOGNAME",    "TMPDIR",        "LANG", "LANGUAGE", "TZ",
      "TERM", "NO_COLOR",        "COLUMNS", "LINES", "SLURM_CONF", "SLURM_CLUSTERS"};
  constexpr std::string_view kPrefixes[] = {"LC_", "DL_", "XDG_"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
}

void keep_roots_environment() {
  std::vector<std::string> unset;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (const auto name = text.substr(0, text.find('=')); !is_for_others(name)) unset.emplace_back(name);
  }
  for (const std::string& name : unset) ::unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
}

void keep_roots_descriptors() {
#ifdef SYS_close_range                        // since Linux 5.11
  constexpr unsigned kCloseOnExec = 1U << 2;  // CLOSE_RANGE_CLOEXEC, which older headers lack
  ::syscall(SYS_close_range, 3U, ~0U, kCloseOnExec);
#endif
}

bool become(const Identity& who) {
  keep_roots_environment();
  keep_roots_descriptors();
  separate_children();
  if (!take_groups(who) || ::setresgid(who.gid, who.gid, who.gid) != 0 || ::setresuid(who.uid, who.uid, who.uid) != 0)
    return false;
  return ::setuid(0) != 0;  // true if root's rights cannot be regained
}

void bound_this_process() {
  const struct rlimit memory = {kMostMemory, kMostMemory}, cpu = {kMostCpuS, kMostCpuS}, none = {0, 0};
  (void)::setrlimit(RLIMIT_AS, &memory);
  (void)::setrlimit(RLIMIT_CPU, &cpu);
  (void)::setrlimit(RLIMIT_CORE, &none);
}

[[noreturn]] void make_in_child(const Identity& who, int out, const std::function<std::string()>& make) {
  bound_this_process();
  if (!become(who)) ::_exit(1);
  std::string text;
  try {
    text = make();
  } catch (...) {
    ::_exit(1);
  }
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(out, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) ::_exit(1);
    done += static_cast<size_t>(n);
  }
  ::_exit(0);
}

// Checks that only root can replace this folder, or a folder above it.
Status check_roots_own(const std::string& folder) {
  std::error_code failure;
  std::filesystem::path path = std::filesystem::canonical(folder, failure);
  if (failure) return errno_error(folder, failure.value());
  for (;; path = path.parent_path()) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return errno_error(path.string(), errno);
    const bool others_write = (status.st_mode & 0022) != 0 && (status.st_mode & S_ISVTX) == 0;
    if (status.st_uid != 0 || others_write)
      return Error{Errc::kDenied, fmt::format("'{}' belongs to root, but others may change what lies in '{}'; allowed: "
                                              "folders that only root can write to, or a user's own",
                                              printable(folder, 300), printable(path.string(), 300))};
    if (path == path.root_path()) return {};
  }
}

}  // namespace

bool is_foreign(const Job& job) {
  if (job.slurm || !job.accounted_user.empty()) {
    const struct passwd* me = ::getpwuid(kCaller);  // NOLINT(concurrency-mt-unsafe): one thread
    return me == nullptr || (job.slurm ? job.slurm->user : job.accounted_user) != me->pw_name;
  }
  struct stat status {};
  return job.has_dir() && ::stat(job.dir.root().c_str(), &status) == 0 && status.st_uid != kCaller;
}

Status act_as_owner(const Job& job) {
  if (::geteuid() != 0) return {};
  DL_TRY_ASSIGN(const Identity who, owner_of(job));
  if (who.uid == 0) return {};
  if (!become(who))
    return Error{Errc::kDenied, "job " + job.id + " is another user's, and root may not take that user's rights here"};
  return {};
}

Status act_as_owner_of(const std::vector<std::string>& folders) {
  if (::geteuid() != 0) return {};
  std::optional<Identity> who;
  for (const std::string& folder : folders) {
    struct stat status {};
    if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
      return Error{Errc::kNotFound, "'" + printable(folder, 300) + "' is not a folder"};
    if (who && who->uid != status.st_uid)
      return Error{Errc::kInvalid, fmt::format("'{}' and '{}' belong to several users; allowed: folders of one user at "
                                               "a time, since root takes that user's rights",
                                               printable(folders.front(), 300), printable(folder, 300))};
    if (!who) who = identity_of(status.st_uid, status.st_gid);
    if (who->uid == 0) DL_TRY(check_roots_own(folder));
  }
  if (!who || who->uid == 0 || become(*who)) return {};
  return Error{Errc::kDenied, fmt::format("'{}' is another user's, and root may not take that user's rights here",
                                          printable(folders.front(), 300))};
}

Result<std::string> made_as_owner(const Job& job, const std::function<std::string()>& make) {
  if (::geteuid() != 0) return make();
  DL_TRY_ASSIGN(const Identity who, owner_of(job));
  if (who.uid == 0) return make();
  if (!who.name.empty()) (void)groups_of(who);  // here, so that not each child asks anew
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error("pipe", errno);
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return errno_error("fork", errno);
  if (child == 0) make_in_child(who, out.get(), make);
  out.reset();
  std::string text;
  char buffer[65536];
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  bool whole = false;
  while (text.size() <= kMostText) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    struct pollfd item = {in.get(), POLLIN, 0};
    const int ready = left.count() <= 0 ? 0 : ::poll(&item, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    const ssize_t n = ::read(in.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    whole = n == 0;
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  if (!whole) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!whole || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return Error{Errc::kIo,
                 "the record of job " + job.id + " cannot be shown: reading it takes too much memory or time"};
  return text;
}

FileRights::FileRights(const std::string& user) {
  if (::geteuid() != 0 || user.empty()) return;
  const auto who = identity_of(user);
  take(who ? *who : kNobody);
}

FileRights::FileRights(const Job& job) {
  if (::geteuid() != 0) return;
  const auto who = owner_of(job);
  take(who ? *who : kNobody);
}

void FileRights::take(const Identity& who) {
  if (who.uid == 0) return;
  const int count = ::getgroups(0, nullptr);
  groups_.resize(count > 0 ? static_cast<size_t>(count) : 0);
  if (count > 0 && ::getgroups(count, groups_.data()) < 0) ::_exit(1);
  changed_ = true;
  // Ends the process: with half of the change it would have neither root's rights nor the user's.
  if (!take_groups(who) || ::setegid(who.gid) != 0 || ::seteuid(who.uid) != 0) ::_exit(1);
}

FileRights::~FileRights() {
  if (!changed_) return;
  // Ends the process: if root could not get its own rights back, it would go on with a user's.
  if (::seteuid(0) != 0 || ::setegid(0) != 0 || ::setgroups(groups_.size(), groups_.data()) != 0) ::_exit(1);
}

}  // namespace dl::ctl
