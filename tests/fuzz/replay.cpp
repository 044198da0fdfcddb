// SPDX-License-Identifier: Apache-2.0
// Every target over its committed corpus (tests/fuzz/corpus/TARGET/*, or DL_FUZZ_CORPUS), as TAP; part of `make check`,
// without libFuzzer. A corpus that no longer fits its target, since all of it is refused at once, fails: each promise
// in the target's source must be tried by some input.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

struct Target {
  const char* name;
  void (*run)(const uint8_t*, size_t);
};
constexpr Target kTargets[] = {{"manifest", dl::ckpt::fuzz::manifest},
                               {"user_block", dl::ckpt::fuzz::user_block},
                               {"data_file", dl::ckpt::fuzz::data_file},
                               {"messages", dl::ckpt::fuzz::messages},
                               {"event_files", dl::ckpt::fuzz::event_files},
                               {"emetrics", dl::ckpt::fuzz::emetrics},
                               {"log_index", dl::ckpt::fuzz::log_index},
                               {"frames", dl::ckpt::fuzz::frames},
                               {"lease", dl::ckpt::fuzz::lease},
                               {"safetensors", dl::ckpt::fuzz::safetensors},
                               {"sacct", dl::ckpt::fuzz::sacct},
                               {"tcp_store", dl::ckpt::fuzz::tcp_store},
                               {"agent_words", dl::ckpt::fuzz::agent_words},
                               {"pmix", dl::ckpt::fuzz::pmix},
                               {"data_journal", dl::ckpt::fuzz::data_journal},
                               {"data_manifest", dl::ckpt::fuzz::data_manifest},
                               {"data_sources", dl::ckpt::fuzz::data_sources},
                               {"rclone_lines", dl::ckpt::fuzz::rclone_lines},
                               {"web_headers", dl::ckpt::fuzz::web_headers},
                               {"pool_messages", dl::ckpt::fuzz::pool_messages},
                               {"packed_index", dl::ckpt::fuzz::packed_index}};

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The promises of a target's source: the last text in each must(...).
std::set<std::string> promises_in(const std::string& source) {
  std::set<std::string> promises;
  constexpr std::string_view kCall = "must(";
  for (size_t at = source.find(kCall); at != std::string::npos; at = source.find(kCall, at)) {
    at += kCall.size();
    std::string last;
    for (int depth = 1; depth > 0 && at < source.size(); ++at) {
      const char c = source[at];
      if (c == '"' || c == '\'') {
        const size_t begin = at + 1;
        for (++at; at < source.size() && source[at] != c; ++at) at += source[at] == '\\' ? 1 : 0;
        if (c == '"') last = source.substr(begin, at - begin);
      } else {
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      }
    }
    promises.insert(last);
  }
  return promises;
}

}  // namespace

int main() {
  const char* top = std::getenv("top_srcdir");
  const std::string folder = std::string(top ? top : ".") + "/tests/fuzz";
  const char* other = std::getenv("DL_FUZZ_CORPUS");
  const std::string corpus = other ? other : folder + "/corpus";
  setenv("DL_FUZZ_BASE", (folder + "/base").c_str(), 0);
  std::printf("TAP version 13\n1..%zu\n", std::size(kTargets));
  int number = 0;
  for (const Target& target : kTargets) {
    std::vector<std::filesystem::path> inputs;
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(corpus + "/" + target.name, missing))
      inputs.push_back(entry.path());
    std::sort(inputs.begin(), inputs.end());
    std::set<std::string> wanted = promises_in(content(folder + "/" + target.name + ".cpp"));
    for (const auto& path : inputs) {
      const std::string bytes = content(path);
      std::printf("# %s %s\n", target.name, path.filename().c_str());  // the last one before an abort is the culprit
      std::fflush(stdout);
      std::set<std::string> tried;
      dl::ckpt::fuzz::tried_promises = &tried;
      target.run(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
      dl::ckpt::fuzz::tried_promises = nullptr;
      for (const std::string& promise : tried)
        if (wanted.erase(promise) != 0) std::printf("#   tries '%s'\n", promise.c_str());
    }
    for (const std::string& promise : wanted)
      std::printf("# no input of %s tries '%s'\n", target.name, promise.c_str());
    std::printf("%sok %d - %s: %zu inputs of the corpus, which try every promise\n",
                inputs.empty() || !wanted.empty() ? "not " : "", ++number, target.name, inputs.size());
  }
  return 0;
}
