// SPDX-License-Identifier: Apache-2.0
// dl-data fetch: puts the sources of a job where its learners find them.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/data_request.h"
#include "launcher/data/node_cache.h"
#include "launcher/data/progress.h"
#include "launcher/data/retry.h"
#include "launcher/data/transfer.h"

namespace dl::data {

struct FetchOptions {
  std::vector<Source> sources;
  std::string cache;  // the site's folder for caches
  CacheLimits limits;
  std::string dest;  // DATA_DIR
  unsigned node = 0, nodes = 1;
  TransferOptions transfer;
};

// What keeps the fetched sets from being evicted, as long as it lives.
struct Held {
  std::vector<Lock> leases;
  std::vector<std::string> keys;  // of the sets
  std::string job{};              // of which the links are in the cache, too; empty: of none
};

// Fetches what is not in the cache, and makes `dest` or folders in it links to the sets. Errors: those of Origin (the
// user's or passing ones), of the local disk, of eviction, of NodeCache::open() (also where no source is cached).
Result<Held> fetch(const FetchOptions& options, Progress* progress);

// Makes DEST/to a symbolic link to `target`, as the last step; what an earlier fetch has put there is replaced. An
// existing folder that is not empty gets a link for each entry of `target`. kExists: a file of somebody else is in the
// way.
Status link_to(const std::string& dest, const std::string& to, const std::string& target);

}  // namespace dl::data
