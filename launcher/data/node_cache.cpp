// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/node_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/clock.h"
#include "common/base/own_folder.h"
#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/json/json.h"
#include "launcher/data/eviction.h"
#include "launcher/data/fault.h"
#include "launcher/data/write_all.h"

namespace dl::data {
namespace {

constexpr int64_t kDayMs = 24 * 3600 * 1000;
constexpr size_t kKeyLetters = 64;
const std::string kWorkMark = "unfinished/";  // in front of the folder of such a set
constexpr size_t kMostInfo = 1 << 20;
constexpr const char* kJobLease = ".job";
constexpr size_t kLongestJob = 200;

bool is_key(const std::string& text) {
  return text.size() == kKeyLetters && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

int64_t changed_ms(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1'000'000 : 0;
}

// When a fetch last wrote something into its folder.
int64_t worked_ms(const std::string& folder) {
  int64_t latest = 0;
  for (const char* name : {"", "/notes", "/tree", "/parts", "/incoming"})
    latest = std::max(latest, changed_ms(folder + name));
  const std::unique_ptr<DIR, int (*)(DIR*)> parts(::opendir((folder + "/parts").c_str()), &::closedir);
  if (parts == nullptr) return latest;
  while (const dirent* item = ::readdir(parts.get()))
    latest = std::max(latest, changed_ms(folder + "/parts/" + item->d_name));
  return latest;
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

Error as_local(const Error& error) {
  return Error{error.code == Errc::kNoSpace ? Errc::kNoSpace : Errc::kIo, error.text, error.sys_errno};
}

Status write_info(const std::string& folder, const SetInfo& info) {
  const Json text = {{"version", 1},        {"source", info.source},         {"bytes", info.bytes},
                     {"files", info.files}, {"created_ms", info.created_ms}, {"shared", Json(info.shared)}};
  // Durable before the set appears: by this file it is known to be complete.
  const Status written = write_file_atomically(folder + "/set.json", text.dump() + "\n", 0600);
  return written ? Status() : Status(as_local(written.error()));
}

}  // namespace

std::string job_of(const std::string& dir, const std::string& dest) {
  const std::string front = fmt::format("{}/{}/jobs/", dir, ::geteuid());
  if (dest.compare(0, front.size(), front) != 0) return {};
  const std::string job = dest.substr(front.size());
  const bool name = !job.empty() && job.front() != '.' && job.size() <= kLongestJob;
  return name && job.find('/') == std::string::npos ? job : std::string();
}

Result<NodeCache> NodeCache::open(const std::string& dir, const CacheLimits& limits) {
  NodeCache cache;
  cache.limits_ = limits;
  DL_TRY_ASSIGN(cache.folder_, own_folder(dir, std::to_string(::geteuid())));
  DL_TRY(cache.prepare());
  return cache;
}

Status NodeCache::prepare() {
  for (const char* name : {"sets", "unfinished", "trash", "jobs"}) {
    const std::string path = folder_ + "/" + name;
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return local_error("create " + path, errno);
  }
  local_ = is_local(folder_);
  DL_TRY_ASSIGN(locks_, lock_folder(folder_));
  return {};
}

std::string NodeCache::work_name(const std::string& key) const {
  return key + (local_ ? "" : "." + node_name());
}

std::string NodeCache::work_folder(const std::string& key) const {
  return folder_ + "/unfinished/" + work_name(key);
}

Result<Lock> NodeCache::lease(const std::string& key) const {
  return Lock::wait(locks_ + "/" + key + ".lease", Lock::Kind::kShared);
}

Result<Lock> NodeCache::job_lease(const std::string& job) const {
  return Lock::wait(locks_ + "/" + job + kJobLease, Lock::Kind::kShared);
}

Result<Lock> NodeCache::fetch_lock(const std::string& key) const {
  return Lock::wait(locks_ + "/" + key + ".fetch", Lock::Kind::kAlone);
}

bool NodeCache::has(const std::string& key) const {
  return exists(set_folder(key) + "/set.json");
}

void NodeCache::touch(const std::string& key) const {
  const UniqueFd fd(::open((set_folder(key) + "/used").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd) ::futimens(fd.get(), nullptr);
}

void NodeCache::touch_job(const std::string& job) const {
  ::utimensat(AT_FDCWD, (folder_ + "/jobs/" + job).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

Status NodeCache::commit(const SetInfo& info) const {
  const std::string work = work_folder(info.key), place = set_folder(info.key);
  DL_TRY(write_info(work, info));
  if (::rename(work.c_str(), place.c_str()) != 0) {
    if (errno != EEXIST && errno != ENOTEMPTY) return local_error("rename to " + place, errno);
    return remove_tree(work);
  }
  touch(info.key);
  return sync_folder(folder_ + "/sets");
}

Result<std::vector<std::string>> NodeCache::keys_in(const std::string& folder) const {
  return names_in(folder_ + "/" + folder);
}

Result<std::vector<std::string>> NodeCache::names_in(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), &::closedir);
  if (dir == nullptr) return local_error("list " + path, errno);
  std::vector<std::string> names;
  while (const dirent* item = ::readdir(dir.get()))
    if (std::strcmp(item->d_name, ".") != 0 && std::strcmp(item->d_name, "..") != 0) names.emplace_back(item->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

Result<SetInfo> NodeCache::info_of(const std::string& key) const {
  SetInfo info;
  info.key = key;
  const std::string folder = set_folder(key);
  DL_TRY_ASSIGN(const std::string text, read_small_file(folder + "/set.json", kMostInfo));
  try {
    const Json json = Json::parse(text);
    info.source = json.value("source", std::string());
    info.bytes = json.value("bytes", uint64_t{0});
    info.files = json.value("files", uint64_t{0});
    info.created_ms = json.value("created_ms", int64_t{0});
    info.shared = json.value("shared", std::map<std::string, uint64_t>());
  } catch (const JsonError& wrong) {
    return Error{Errc::kCorrupt, folder + "/set.json: " + wrong.what()};
  }
  info.used_ms = std::max(info.created_ms, changed_ms(folder + "/used"));
  info.pinned = exists(folder + "/pinned");
  return info;
}

Result<std::vector<SetInfo>> NodeCache::list() const {
  std::vector<SetInfo> sets;
  DL_TRY_ASSIGN(const std::vector<std::string> keys, keys_in("sets"));
  for (const std::string& key : keys) {
    if (!is_key(key)) continue;
    auto info = info_of(key);
    if (!info && info.error().code == Errc::kNotFound) continue;  // evicted meanwhile
    if (!info) {
      SetInfo damaged_set;
      damaged_set.key = key;
      damaged_set.source = "(damaged)";
      info = std::move(damaged_set);
    }
    auto lock = Lock::attempt(locks_ + "/" + key + ".lease", Lock::Kind::kAlone);
    info->leased = !lock || !*lock;
    sets.push_back(*std::move(info));
  }
  DL_TRY_ASSIGN(const std::vector<std::string> works, keys_in("unfinished"));
  for (const std::string& name : works) {
    if (!is_key(name.substr(0, kKeyLetters))) continue;
    SetInfo info;
    info.key = name.substr(0, kKeyLetters);
    info.complete = false;
    info.work = name;
    info.used_ms = worked_ms(folder_ + "/unfinished/" + name);
    const auto text = read_small_file(folder_ + "/unfinished/" + name + "/wanted", kMostInfo);
    if (text) {
      const size_t blank = text->find(' ');
      const auto bytes = parse_int(text->substr(0, blank), 0, INT64_MAX);
      if (bytes) info.bytes = static_cast<uint64_t>(*bytes);
      if (blank != std::string::npos) info.source = std::string(trim(text->substr(blank + 1)));
    }
    info.leased = at_work(info);
    sets.push_back(std::move(info));
  }
  std::stable_sort(sets.begin(), sets.end(), [](const SetInfo& a, const SetInfo& b) { return a.used_ms > b.used_ms; });
  return sets;
}

bool NodeCache::too_fresh(const SetInfo& set) const {
  // Leases of other nodes cannot be seen; who holds one notes that each hour.
  return !local_ && unix_ms() - set.used_ms < kDayMs;
}

bool NodeCache::at_work(const SetInfo& set) const {
  if (set.work != work_name(set.key)) return unix_ms() - set.used_ms < kDayMs;
  const auto lock = Lock::attempt(locks_ + "/" + set.key + ".fetch", Lock::Kind::kAlone);
  return !lock || !*lock;
}

Status NodeCache::empty_trash() const {
  DL_TRY_ASSIGN(const std::vector<std::string> names, keys_in("trash"));
  for (const std::string& name : names) DL_TRY(remove_tree(folder_ + "/trash/" + name));
  return {};
}

Result<bool> NodeCache::evict(const std::string& key) const {
  const std::string place = set_folder(key),
                    trash = fmt::format("{}/trash/{}.{}.{}", folder_, key, ::getpid(), unix_ms());
  {
    DL_TRY_ASSIGN(const Lock alone, Lock::attempt(locks_ + "/" + key + ".lease", Lock::Kind::kAlone));
    if (!alone || exists(place + "/pinned")) return false;
    if (::rename(place.c_str(), trash.c_str()) != 0)
      return errno == ENOENT ? Result<bool>(true) : Result<bool>(local_error("rename " + place, errno));
  }
  DL_TRY(remove_tree(trash));
  return true;
}

Result<bool> NodeCache::drop_work(const SetInfo& set) const {
  const std::string place = folder_ + "/unfinished/" + set.work;
  if (set.work != work_name(set.key)) {
    if (at_work(set)) return false;
    DL_TRY(remove_tree(place));
    return true;
  }
  DL_TRY_ASSIGN(const Lock alone, Lock::attempt(locks_ + "/" + set.key + ".fetch", Lock::Kind::kAlone));
  if (alone) DL_TRY(remove_tree(place));
  return static_cast<bool>(alone);
}

Status NodeCache::make_room(const std::string& key, uint64_t whole, uint64_t more) const {
  DL_TRY_ASSIGN(const Lock one_at_a_time, Lock::wait(locks_ + "/room", Lock::Kind::kAlone));
  DL_TRY(empty_trash());
  constexpr int kRounds = 16;  // sets may be leased between the look and the eviction
  for (int round = 0; round < kRounds; ++round) {
    DL_TRY_ASSIGN(const std::vector<SetInfo> sets, list());
    struct statvfs disk {};
    if (::statvfs(folder_.c_str(), &disk) != 0) return local_error(folder_, errno);
    Room room;
    room.limit = limits_.limit;
    room.free = disk.f_bavail * disk.f_frsize;
    room.floor = disk.f_blocks * disk.f_frsize / 100 * limits_.floor_percent;
    room.need = whole;
    room.more = more;
    std::vector<SetUse> uses;
    std::map<std::string, int64_t> made;
    for (const SetInfo& set : sets)
      if (set.complete) made[set.key] = set.created_ms;
    for (const SetInfo& set : sets) {
      if (!set.complete && set.key == key) continue;  // it is part of `need`
      uint64_t own = set.bytes;
      // Shared files count for the oldest of the sets that have them.
      for (const auto& [other, bytes] : set.shared) {
        const auto at = made.find(other);
        if (at != made.end() && std::tie(at->second, other) < std::tie(set.created_ms, set.key))
          own -= std::min(own, bytes);
      }
      if (set.key == key) {
        // Repaired files replace files that are counted already, so they need no more room.
        room.held += own - std::min(own, whole);
        continue;
      }
      room.held += own;
      // What a fetch has left behind that has ended early is as good as a set: it saves bytes if somebody wants them.
      const bool held = set.leased || set.pinned || too_fresh(set);
      uses.push_back({set.complete ? set.key : kWorkMark + set.work, own, set.used_ms, held});
    }
    DL_TRY_ASSIGN(const std::vector<std::string> victims, choose_victims(std::move(uses), room));
    if (victims.empty()) return {};
    for (const std::string& victim : victims) {
      const auto work = std::find_if(sets.begin(), sets.end(), [&](const SetInfo& set) {
        return !set.complete && kWorkMark + set.work == victim;
      });
      DL_TRY(work != sets.end() ? drop_work(*work) : evict(victim));
    }
  }
  return Error{Errc::kNoSpace, "the node's cache has no room: other jobs took the sets that were to be evicted"};
}

Status NodeCache::tidy() const {
  DL_TRY_ASSIGN(const std::vector<std::string> jobs, names_in(folder_ + "/jobs"));
  for (const std::string& job : jobs) {
    const std::string place = folder_ + "/jobs/" + job;
    // Links that a killed fetch was about to rename have a dot in front; leases of other nodes cannot be seen.
    if ((job.front() == '.' || !local_) && unix_ms() - changed_ms(place) < kDayMs) continue;
    const std::string lock = locks_ + "/" + job + kJobLease;
    DL_TRY_ASSIGN(const Lock alone, Lock::attempt(lock, Lock::Kind::kAlone));
    if (!alone) continue;
    DL_TRY(remove_tree(place));
    ::unlink(lock.c_str());
  }
  DL_TRY_ASSIGN(const std::vector<std::string> locks, names_in(locks_));
  for (const std::string& name : locks) {
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos) continue;
    const std::string of = name.substr(0, dot);
    auto there = [&] {
      if (name.substr(dot) == kJobLease) return exists(folder_ + "/jobs/" + of);
      return exists(set_folder(of)) || exists(work_folder(of));
    };
    if (there()) continue;
    DL_TRY_ASSIGN(const Lock alone, Lock::attempt(locks_ + "/" + name, Lock::Kind::kAlone));
    if (alone && !there()) ::unlink((locks_ + "/" + name).c_str());
  }
  return {};
}

Result<uint64_t> NodeCache::collect(bool all) const {
  DL_TRY_ASSIGN(const Lock one_at_a_time, Lock::wait(locks_ + "/room", Lock::Kind::kAlone));
  DL_TRY(empty_trash());
  uint64_t freed = 0;
  DL_TRY_ASSIGN(const std::vector<SetInfo> sets, list());
  for (const SetInfo& set : sets) {
    if (!set.complete) {
      if (set.leased || (!all && unix_ms() - set.used_ms < kDayMs)) continue;
      DL_TRY(drop_work(set));
    } else if (all && !set.leased && !set.pinned && !too_fresh(set)) {
      DL_TRY_ASSIGN(const bool gone, evict(set.key));
      freed += gone ? set.bytes : 0;
    }
  }
  DL_TRY(tidy());
  return freed;
}

Result<SetInfo> NodeCache::find(const std::string& name) const {
  DL_TRY_ASSIGN(const std::vector<SetInfo> sets, list());
  const SetInfo* found = nullptr;
  for (const SetInfo& set : sets) {
    if (!set.complete || (set.source != name && (name.size() < 4 || set.key.compare(0, name.size(), name) != 0)))
      continue;
    if (found != nullptr)
      return Error{Errc::kConflict,
                   "'" + printable(name) + "' is the name of several sets; allowed: a key of dlctl data ls"};
    found = &set;
  }
  if (found == nullptr)
    return Error{Errc::kNotFound,
                 "'" + printable(name) + "' is not in the cache; allowed: a source, or a key of dlctl data ls"};
  return *found;
}

Status NodeCache::pin(const std::string& key, bool pinned) const {
  const std::string path = set_folder(key) + "/pinned";
  if (!pinned)
    return ::unlink(path.c_str()) == 0 || errno == ENOENT ? Status() : Status(local_error("remove " + path, errno));
  DL_TRY_ASSIGN(const Lock held, lease(key));
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  return fd ? Status() : Status(local_error("create " + path, errno));
}

}  // namespace dl::data
