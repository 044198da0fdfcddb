// SPDX-License-Identifier: Apache-2.0
// dlctl migrate FILE: a batch script of another launcher, or FfDL's manifest.yml, said with --dl-* flags and dlrun.
#include <memory>

#include "launcher/ctl/python_helper.h"
#include "launcher/ctl/subcommand.h"

namespace dl::ctl {
namespace {

struct Options {
  std::string file, write;
  bool json = false;
};

Status run(const Options& options) {
  std::vector<std::string> words;
  if (options.json) words.emplace_back("--json");
  if (!options.write.empty()) words.push_back("--write=" + options.write);
  words.insert(words.end(), {"--", options.file});
  return run_python("dl.migrate.__main__", words);
}

}  // namespace

Run add_migrate(CommandLine* line) {
  auto options = std::make_shared<Options>();
  line->argument("FILE", &options->file, "a batch script, or FfDL's manifest.yml").required();
  line->option("--write", &options->write, "write the new script there, instead of showing what differs").form("FILE");
  line->flag("--json", &options->json, "for programs: the script, the differences, learners, GPUs and remarks");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
