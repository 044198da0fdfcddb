// SPDX-License-Identifier: Apache-2.0
#include "launcher/logs/read_index.h"

#include "launcher/logs/log_file.h"
#include "launcher/record/job_dir.h"
#include "launcher/record/open_below.h"

namespace dl::logs {

LogIndex read_index(const std::string& root, int attempt, const std::vector<int>& ranks, int64_t begin_ms) {
  const std::string folder = record::JobDir("").attempt_logs(attempt).substr(1);
  LogIndex index;
  // Between two thinnings the file may be larger than the limit by one call of the writer.
  if (const auto text = record::read_below(root, folder + "/" + kIndexName, 2 * kMostIndexBytes)) {
    if (auto parsed = LogIndex::parse(*text)) index = *std::move(parsed);
  }
  for (const int rank : ranks) {
    if (index.knows(rank) || rank > kMostRank) continue;
    const auto log = LogFile::open(root, record::JobDir("").learner_log(attempt, rank).substr(1));
    if (!log) continue;
    const auto size = log->size();
    if (!size || *size == 0) continue;
    index.assume(rank, *size, begin_ms > 0 && begin_ms < log->changed_ms() ? begin_ms : log->changed_ms(),
                 log->changed_ms());
  }
  return index;
}

}  // namespace dl::logs
