// SPDX-License-Identifier: Apache-2.0
// The cache of a user on a node: sets of files by the content that their source told (set_key()), complete or not
// there.
//
//   DIR/UID/              0700, of this user
//     sets/KEY/           a complete set: tree/ (the files, read-only), manifest, set.json, used, pinned
//     unfinished/KEY/     a set that is being fetched (work.h)
//     trash/              what was evicted, while it is removed
//     jobs/JOB            what a job finds its data by: a link to a tree, or a folder of links
//     locks/              lease.h; elsewhere where the cache lies on a file system that several nodes share
//
// A set appears by one rename, and leaves by one. Who uses a set holds a lease on it from before he looks for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/data/lease.h"
#include "launcher/data/manifest.h"

namespace dl::data {

struct CacheLimits {
  uint64_t limit = 0;          // bytes of the whole cache of this user; 0: none
  uint64_t floor_percent = 5;  // of the disk, that stay free
};

// What is kept of a set, and shown.
struct SetInfo {
  std::string key;
  std::string source;
  uint64_t bytes = 0, files = 0;
  int64_t created_ms = 0, used_ms = 0;
  std::map<std::string, uint64_t> shared;  // bytes of files that it shares with an older set, by its key
  bool leased = false, pinned = false;
  bool complete = true;  // false: it is being fetched, or a fetch of it has ended early
  std::string work;      // then its folder below unfinished/; its key, on a shared file system with the node's name
};

// The job of which `dest` is the folder of links in the cache below `dir`; empty: of none. Compares the texts, resolves
// no links. Pure but for the user.
std::string job_of(const std::string& dir, const std::string& dest);

class NodeCache {
 public:
  // Opens, and makes where needed, the cache of this user below the site's folder `dir` (absolute). A symbolic link in
  // its path is followed only if root or this user has made it. kIo: it cannot be made, or is not this user's alone.
  static Result<NodeCache> open(const std::string& dir, const CacheLimits& limits);

  const std::string& folder() const { return folder_; }
  std::string set_folder(const std::string& key) const { return folder_ + "/sets/" + key; }
  std::string tree(const std::string& key) const { return set_folder(key) + "/tree"; }
  // Where it is fetched; on a shared file system each node has a folder of its own.
  std::string work_folder(const std::string& key) const;

  // Keeps a set from being evicted, on this node. Waits while it is being evicted.
  Result<Lock> lease(const std::string& key) const;
  // Keeps the links of a job from being removed.
  Result<Lock> job_lease(const std::string& job) const;
  // One fetcher a node for each set: waits for the other one.
  Result<Lock> fetch_lock(const std::string& key) const;
  bool has(const std::string& key) const;
  // Notes that it is used now.
  void touch(const std::string& key) const;
  // Notes that the job by this name still uses its links.
  void touch_job(const std::string& job) const;

  // Makes a fetched set appear. What another node has put there meanwhile is as good. sums: Work::finish() was called.
  Status commit(const SetInfo& info) const;
  // Evicts sets until the set `key` of `whole` bytes, of which `more` are not on the disk yet, has room. That set
  // itself stays. Errors of choose_victims().
  Status make_room(const std::string& key, uint64_t whole, uint64_t more) const;
  // Removes one set; false: it is leased or pinned.
  Result<bool> evict(const std::string& key) const;
  // Removes the links of jobs that hold no lease (any more), and locks of what is not there.
  Status tidy() const;
  // Removes what nobody uses: what tidy() does, trash, and work folders without a fetcher that are older than a day
  // (all: whatever their age). Returns the bytes of sets that were removed, all unleased and unpinned ones if `all`.
  Result<uint64_t> collect(bool all) const;

  // All sets, by the time of their use, newest first; also incomplete ones.
  Result<std::vector<SetInfo>> list() const;
  // The only set whose key begins with `name` or whose source is `name`. kNotFound, kConflict: several.
  Result<SetInfo> find(const std::string& name) const;
  Status pin(const std::string& key, bool pinned) const;

 private:
  NodeCache() = default;
  Status prepare();
  Result<SetInfo> info_of(const std::string& key) const;
  Result<std::vector<std::string>> keys_in(const std::string& folder) const;
  static Result<std::vector<std::string>> names_in(const std::string& path);
  std::string work_name(const std::string& key) const;
  // Whether somebody may be fetching into a folder below unfinished/: of this node his lock tells, of others only the
  // time.
  bool at_work(const SetInfo& set) const;
  // Removes what a fetch has left behind; false: somebody fetches it.
  Result<bool> drop_work(const SetInfo& set) const;
  Status empty_trash() const;
  bool too_fresh(const SetInfo& set) const;

  std::string folder_, locks_;
  CacheLimits limits_;
  bool local_ = true;
};

}  // namespace dl::data
