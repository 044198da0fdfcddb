// SPDX-License-Identifier: Apache-2.0
// dlctl migrate FILE: rewrites a batch script of another launcher, or FfDL's manifest.yml, with --dl-* flags and dlrun.
#include <memory>

#include "launcher/ctl/python_helper.h"
#include "launcher/ctl/subcommand.h"

namespace dl::ctl {
namespace {

struct MigrateOptions {
  std::string file, write, variables_of;
  bool json = false;
};

Status run(const MigrateOptions& options) {
  std::vector<std::string> words;
  if (!options.variables_of.empty()) {
    if (!options.file.empty() || !options.write.empty() || options.json)
      return Error{Errc::kInvalid, "--variables-of: stands alone; allowed: dlctl migrate --variables-of FILE"};
    return run_python("dl.migrate.__main__", {"--variables-of", "--", options.variables_of});
  }
  if (options.file.empty()) return Error{Errc::kInvalid, "FILE is required: a batch script, or FfDL's manifest.yml"};
  if (options.json) words.emplace_back("--json");
  if (!options.write.empty()) words.push_back("--write=" + options.write);
  words.insert(words.end(), {"--", options.file});
  return run_python("dl.migrate.__main__", words);
}

}  // namespace

Run add_migrate(CommandLine* line) {
  auto options = std::make_shared<MigrateOptions>();
  line->argument("FILE", &options->file, "a batch script, or FfDL's manifest.yml");
  line->option("--write", &options->write, "write the new script there, instead of showing what differs").form("FILE");
  line->option("--variables-of", &options->variables_of, "print what a configuration file of accelerate sets")
      .form("FILE");
  line->flag("--json", &options->json, "for programs: the script, the differences, learners, GPUs and remarks");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
