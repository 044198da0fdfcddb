// SPDX-License-Identifier: Apache-2.0
// Every target over its committed corpus (tests/fuzz/corpus/TARGET/*), as TAP; part of `make check`, without libFuzzer.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
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
                               {"frames", dl::ckpt::fuzz::frames},
                               {"lease", dl::ckpt::fuzz::lease},
                               {"safetensors", dl::ckpt::fuzz::safetensors},
                               {"sacct", dl::ckpt::fuzz::sacct},
                               {"tcp_store", dl::ckpt::fuzz::tcp_store},
                               {"agent_words", dl::ckpt::fuzz::agent_words},
                               {"pmix", dl::ckpt::fuzz::pmix},
                               {"packed_index", dl::ckpt::fuzz::packed_index}};

}  // namespace

int main() {
  const char* top = std::getenv("top_srcdir");
  const std::string folder = std::string(top ? top : ".") + "/tests/fuzz";
  setenv("DL_FUZZ_BASE", (folder + "/base").c_str(), 0);
  std::printf("TAP version 13\n1..%zu\n", std::size(kTargets));
  int number = 0;
  for (const Target& target : kTargets) {
    std::vector<std::filesystem::path> inputs;
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/corpus/" + target.name, missing))
      inputs.push_back(entry.path());
    std::sort(inputs.begin(), inputs.end());
    for (const auto& path : inputs) {
      std::ifstream in(path, std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      std::printf("# %s %s\n", target.name, path.filename().c_str());  // the last one before an abort is the culprit
      std::fflush(stdout);
      target.run(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    }
    std::printf("%sok %d - %s: %zu inputs of the corpus\n", inputs.empty() ? "not " : "", ++number, target.name,
                inputs.size());
  }
  return 0;
}
