// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/fetch.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/clock.h"
#include "common/base/count.h"
#include "common/base/parse.h"
#include "launcher/data/eviction.h"
#include "launcher/data/fault.h"
#include "launcher/data/home.h"
#include "launcher/data/work.h"
#include "launcher/data/write_all.h"

namespace dl::data {
namespace {

constexpr int kRounds = 3;  // a source that changes so often while it is fetched is not fetched
constexpr size_t kMostManifest = 4UL << 30;

// One source with what is known of it.
struct Wanted {
  const Source* source = nullptr;
  std::unique_ptr<Origin> origin;
  Manifest manifest;  // this node's part
  std::string key;
  std::string told;  // the same of what the source itself tells, without the user's checksum
};

// What a source is called in the cache: its absolute path, or as it was asked for.
std::string name_of(const Source& source) {
  if (place_of(source.from) != Place::kPath) return source.from;
  const std::string path = at_home(source.from);
  if (!path.empty() && path.front() == '/') return path;
  char folder[PATH_MAX];
  return ::getcwd(folder, sizeof folder) != nullptr ? std::string(folder) + "/" + path : path;
}

class Fetch {
 public:
  Fetch(const FetchOptions& options, Progress* progress) : options_(options), progress_(progress) {}

  Result<Held> run() {
    std::vector<Wanted> wanted;
    for (const Source& source : options_.sources) {
      if (source.cache == Cache::kNone) continue;
      wanted.emplace_back();
      wanted.back().source = &source;
      wanted.back().origin = open_origin(source);
      DL_TRY(list(&wanted.back()));
      progress_->counts.total += wanted.back().manifest.bytes();
      progress_->counts.all_files += wanted.back().manifest.files();
    }
    // Also where nothing is cached: the links of a job lie in the user's folder, whoever may have put another there.
    DL_TRY_ASSIGN(NodeCache cache, NodeCache::open(options_.cache, options_.limits));
    cache_ = std::make_unique<NodeCache>(std::move(cache));
    held_.job = job_of(options_.cache, options_.dest);
    if (!held_.job.empty()) {
      DL_TRY_ASSIGN(Lock lease, cache_->job_lease(held_.job));
      held_.leases.push_back(std::move(lease));
    }
    ignore(cache_->tidy(), "what is left over is in nobody's way");
    if (const uint64_t all = together(wanted); options_.limits.limit > 0 && all > options_.limits.limit)
      return larger_than_limit(all, options_.limits.limit);
    progress_->state(Progress::State::kFetching);
    for (Wanted& one : wanted) DL_TRY(provide(&one));
    for (const Source& source : options_.sources)
      if (source.cache == Cache::kNone) DL_TRY(link_where_it_lies(source));
    for (const Wanted& one : wanted) DL_TRY(link_to(options_.dest, one.source->to, cache_->tree(one.key)));
    return std::move(held_);
  }

 private:
  Status list(Wanted* wanted) {
    const std::atomic<bool> never{false};
    wanted->origin->stop = false;  // a transfer that has failed sets it
    DL_TRY_ASSIGN(Manifest whole, try_again(options_.transfer.patience, never, [&] { return wanted->origin->list(); }));
    const std::string name = name_of(*wanted->source);
    const bool sums = !wanted->source->checksum.empty();
    if (sums) {
      wanted->told = set_key(name, whole);
      if (whole.files() != 1)
        return Error{Errc::kInvalid, fmt::format("{} holds {}, and a checksum is of one; allowed: the path of a file",
                                                 shown_place(wanted->source->from),
                                                 count_text(static_cast<int64_t>(whole.files()), "file"))};
      for (Entry& entry : whole.entries)
        if (!entry.folder) entry.identity = wanted->source->checksum;
    }
    const bool shard = wanted->source->cache == Cache::kShard;
    wanted->manifest = shard ? part_of(whole, options_.node, options_.nodes) : std::move(whole);
    wanted->key = set_key(name, wanted->manifest);
    if (!sums) wanted->told = wanted->key;
    return {};
  }

  // The bytes of all sets, which are all held until the job ends.
  static uint64_t together(const std::vector<Wanted>& wanted) {
    std::map<std::string_view, uint64_t> bytes;
    for (const Wanted& one : wanted) bytes[one.key] = one.manifest.bytes();
    return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0},
                           [](uint64_t sum, const auto& one) { return sum + one.second; });
  }

  // The set is in the cache, and stays there as long as its lease is held.
  Status provide(Wanted* wanted) {
    Counts& counts = progress_->counts;
    const uint64_t bytes = counts.bytes, files = counts.files, resumed = counts.resumed;
    for (int round = 1;; ++round) {
      DL_TRY_ASSIGN(Lock lease, cache_->lease(wanted->key));
      if (!cache_->has(wanted->key) || !intact(*wanted)) {
        const Status made = fetch_set(wanted);
        if (!made && is_other(made.error()) && round < kRounds) {
          const bool all_new = counts.resumed == resumed;
          counts.bytes = bytes, counts.files = files, counts.resumed = resumed;
          const std::string told = wanted->told;
          DL_TRY(list_again(wanted));
          // Nothing has changed there, so that the same bytes would come again, to the same checksum; unless some of
          // them were kept from an earlier try, of another state perhaps.
          if (made.error().code == Errc::kCorrupt && all_new && wanted->told == told) return made;
          continue;
        }
        if (!made) return made;
      } else {
        count_all(*wanted);
      }
      cache_->touch(wanted->key);
      held_.leases.push_back(std::move(lease));
      held_.keys.push_back(wanted->key);
      return {};
    }
  }

  // Another state of the source than that of the manifest, or a mixture of two.
  static bool is_other(const Error& error) { return error.code == Errc::kConflict || error.code == Errc::kCorrupt; }

  bool intact(const Wanted& wanted) const { return damaged(cache_->tree(wanted.key), wanted.manifest).empty(); }

  // The source has changed: what is still the same in the work folder goes on under the new key.
  Status list_again(Wanted* wanted) {
    const Manifest before = std::exchange(wanted->manifest, {});
    const std::string old_key = wanted->key, told = wanted->told;
    Counts& counts = progress_->counts;
    counts.total -= before.bytes();
    counts.all_files -= before.files();
    DL_TRY(list(wanted));
    counts.total += wanted->manifest.bytes();
    counts.all_files += wanted->manifest.files();
    if (wanted->key == old_key && wanted->told == told) return {};
    DL_TRY_ASSIGN(const Lock alone, cache_->fetch_lock(old_key));
    const std::string work = cache_->work_folder(old_key);
    // Called the same by the user's checksum, which none but the new state can have.
    if (wanted->key == old_key) return remove_tree(work);
    for (const Entry& entry : changes(before, wanted->manifest)) DL_TRY(remove_tree(work + "/tree/" + entry.path));
    ::rename(work.c_str(), cache_->work_folder(wanted->key).c_str());
    return {};
  }

  Status fetch_set(Wanted* wanted) {
    DL_TRY_ASSIGN(const Lock alone, cache_->fetch_lock(wanted->key));
    std::vector<size_t> lacking;
    const bool there = cache_->has(wanted->key);  // another fetcher may have been faster
    if (there) {
      lacking = damaged(cache_->tree(wanted->key), wanted->manifest);
      if (lacking.empty()) {
        count_all(*wanted);
        return {};
      }
    }
    Manifest part;  // of a damaged set only what is to be mended
    for (const size_t entry : lacking) part.entries.push_back(wanted->manifest.entries[entry]);
    if (there) {
      count_all(*wanted, part);
      DL_TRY(settle(&part));
    }
    const Manifest& manifest = there ? part : wanted->manifest;
    const std::string folder = cache_->work_folder(wanted->key);
    Status done = fetch_into(wanted, manifest, folder, there);
    // A full disk is left as it was found.
    if (!done && done.error().code == Errc::kNoSpace) ignore(remove_tree(folder), "the error says more");
    return done;
  }

  // They are all there, but for `lacking`.
  void count_all(const Wanted& wanted, const Manifest& lacking = {}) {
    Counts& counts = progress_->counts;
    counts.bytes += wanted.manifest.bytes() - lacking.bytes();
    counts.resumed += wanted.manifest.bytes() - lacking.bytes();
    counts.files += wanted.manifest.files() - lacking.files();
  }

  Status fetch_into(Wanted* wanted, const Manifest& manifest, const std::string& folder, bool mend) {
    DL_TRY_ASSIGN(const std::unique_ptr<Work> work, Work::open(folder, manifest, &progress_->counts));
    if (auto noted =
            replace_file(folder + "/wanted", fmt::format("{} {}\n", manifest.bytes(), name_of(*wanted->source)), 0600);
        !noted)
      return local_error("write " + folder + "/wanted", noted.error().sys_errno);
    SetInfo info;
    if (!mend) link_known(*wanted, work.get(), &info);
    uint64_t shared = 0;
    for (const auto& [key, bytes] : info.shared) shared += bytes;
    if (Status room = cache_->make_room(wanted->key, manifest.bytes() - shared, work->without_room()); !room) {
      ignore(remove_tree(folder), "the error says more");
      return room;
    }
    TransferOptions how = options_.transfer;
    how.compare = !wanted->source->checksum.empty();
    DL_TRY(transfer(wanted->origin.get(), manifest, work.get(), &progress_->counts, how));
    DL_TRY(same_still(*wanted));
    if (mend) return put_in_place(*wanted, manifest, folder);
    DL_TRY(work->finish(true));
    info.key = wanted->key;
    info.source = name_of(*wanted->source);
    info.bytes = manifest.bytes();
    info.files = manifest.files();
    info.created_ms = unix_ms();
    ::unlink((folder + "/notes").c_str());
    return cache_->commit(info);
  }

  // Files that a former state of the same source has in the cache are linked rather than fetched.
  void link_known(const Wanted& wanted, Work* work, SetInfo* info) {
    auto sets = cache_->list();
    if (!sets) return;
    for (const SetInfo& set : *sets) {
      if (!set.complete || set.source != name_of(*wanted.source) || set.key == wanted.key) continue;
      auto lease = cache_->lease(set.key);
      const auto text = read_small_file(cache_->set_folder(set.key) + "/manifest", kMostManifest);
      if (!lease || !text) continue;
      const auto kept = read_manifest(*text);
      if (!kept) continue;
      const UniqueFd tree(::open(cache_->tree(set.key).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
      size_t at = 0;
      const std::vector<Entry>& known = kept->manifest.entries;
      for (size_t i = 0; i < wanted.manifest.entries.size(); ++i) {
        const Entry& entry = wanted.manifest.entries[i];
        while (at < known.size() && known[at].path < entry.path) ++at;
        if (at == known.size()) break;
        if (entry.folder || work->has(i) || !same_file(known[at], entry)) continue;
        if (work->link(i, tree.get(), kept->sums[at])) info->shared[set.key] += entry.size;
      }
    }
  }

  // The identity of the source again, now that all has been read.
  Status same_still(const Wanted& wanted) {
    const std::atomic<bool> never{false};
    Wanted again;
    again.source = wanted.source;
    again.origin = open_origin(*wanted.source);
    DL_TRY(list(&again));
    const std::vector<Entry> changed = changes(wanted.manifest, again.manifest);
    if (changed.empty()) return {};
    return Error{Errc::kConflict, fmt::format("{} was changed while it was fetched ('{}')",
                                              shown_place(wanted.source->from), printable(changed.front().path, 200))};
  }

  // Mends a set that others may be reading: each file is replaced as a whole.
  Status put_in_place(const Wanted& wanted, const Manifest& manifest, const std::string& folder) {
    DL_TRY(sync_file_system(folder));
    const std::string tree = cache_->tree(wanted.key);
    for (const Entry& entry : manifest.entries) {
      const std::string place = tree + "/" + entry.path;
      const std::string parent = place.substr(0, place.rfind('/'));
      ::chmod(parent.c_str(), 0700);
      struct stat status {};
      if (entry.folder) {
        if (::lstat(place.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) continue;
        DL_TRY(remove_tree(place));
        if (::mkdir(place.c_str(), 0700) != 0) return local_error("create " + place, errno);
        continue;
      }
      if (::lstat(place.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) DL_TRY(remove_tree(place));
      if (::rename((folder + "/tree/" + entry.path).c_str(), place.c_str()) != 0)
        return local_error("rename to " + place, errno);
    }
    for (const Entry& entry : wanted.manifest.entries)
      if (entry.folder) ::chmod((tree + "/" + entry.path).c_str(), 0555);
    ::chmod(tree.c_str(), 0555);
    return remove_tree(folder);
  }

  Status link_where_it_lies(const Source& source) {
    char whole[PATH_MAX];
    const std::string path = at_home(source.from);
    DL_TRY(check_origin(source));
    if (::realpath(path.c_str(), whole) == nullptr) return source_error(printable(path, 400), errno);
    return link_to(options_.dest, source.to, whole);
  }

  const FetchOptions& options_;
  Progress* const progress_;
  std::unique_ptr<NodeCache> cache_;
  Held held_;
};

}  // namespace

Result<Held> fetch(const FetchOptions& options, Progress* progress) {
  return Fetch(options, progress).run();
}

}  // namespace dl::data
