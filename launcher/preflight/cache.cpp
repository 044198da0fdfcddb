// SPDX-License-Identifier: Apache-2.0
#include "launcher/preflight/cache.h"

#include <cstdlib>
#include <fstream>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"

namespace dl::preflight {
namespace {

constexpr size_t kMaxBytes = 1 << 16;

// The id of this boot. After another boot the node may have other hardware, or be without its fault.
std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string path_of(const std::string& folder, const std::string& node) {
  return folder + "/" + node + ".json";
}

}  // namespace

std::string default_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/slurm-dl/preflight";
  const char* home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.cache/slurm-dl/preflight" : std::string();
}

std::optional<NodeReport> cached_report(const std::string& folder, const std::string& node, int64_t now_ms,
                                        std::chrono::seconds max_age) {
  if (folder.empty() || node.find('/') != std::string::npos) return std::nullopt;
  const auto text = read_small_file(path_of(folder, node), kMaxBytes);
  if (!text) return std::nullopt;
  const size_t newline = text->find('\n');
  if (newline == std::string::npos || text->substr(0, newline) != boot_id()) return std::nullopt;
  auto report = parse_report(text->substr(newline + 1));
  if (!report || report->node != node || report->time_ms > now_ms) return std::nullopt;
  const auto age_s = static_cast<double>(now_ms - report->time_ms) / 1000;
  if (age_s > static_cast<double>(max_age.count())) return std::nullopt;
  for (CheckResult& check : report->checks) check.age_s = age_s;
  return *std::move(report);
}

void keep_report(const std::string& folder, const NodeReport& report) {
  if (folder.empty() || report.node.find('/') != std::string::npos) return;
  if (!make_directories(folder, 0700)) return;
  ignore(write_file_atomically(path_of(folder, report.node), boot_id() + "\n" + format_report(report), 0600),
         "then it is measured again");
}

}  // namespace dl::preflight
