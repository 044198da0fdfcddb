// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/maintenance.h"

#include <algorithm>

namespace dl::ckpt::tool {

void add_retention(CommandLine* command, RetentionOptions* options, const std::string& keep_help) {
  command->option("--keep", &options->keep, keep_help).between(1, 1000000);
  command->option("--keep-every", &options->keep_every, "Also keep train steps divisible by this")
      .between(1, kMaxStep)
      .needs("--keep");
  command->option("--best", &options->best, "Also keep the best by a metric: NAME:min[:N] or NAME:max[:N]")
      .needs("--keep");
}

Result<RetentionPolicy> policy_of(const RetentionOptions& options) {
  RetentionPolicy policy{options.keep, options.keep_every, {}};
  if (options.best.empty()) return policy;
  // The count may be left out here.
  const auto colons = std::count(options.best.begin(), options.best.end(), ':');
  auto best = parse_best(colons == 1 ? options.best + ":1" : options.best);
  if (!best) return Error{Errc::kInvalid, "--best: " + best.error().text};
  policy.best = *best;
  return policy;
}

}  // namespace dl::ckpt::tool
