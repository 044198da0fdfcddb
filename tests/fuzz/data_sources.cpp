// SPDX-License-Identifier: Apache-2.0
// The file by which dlrun tells dl-data what a job needs.
#include "common/contract/data_request.h"
#include "launcher/record/sources_file.h"
#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {

void data_sources(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  auto sources = record::parse_sources(text, "x");
  if (!sources) {
    must(sources.error().text.compare(0, 1, "x") == 0, "an error names the file");
    return;
  }
  must(!sources->empty() && sources->size() <= data::kMaxSources, "the number of sources is bounded");
  for (data::Source source : *sources) {
    must(static_cast<bool>(data::check_source(&source)), "an accepted source is a good one");
    must(source.to.empty() || (source.to.front() != '/' && ("/" + source.to + "/").find("/../") == std::string::npos),
         "no folder lies outside");
  }
  static FirstTime first_time;
  const std::string written = record::format_sources(*sources);
  if (!first_time(written)) return;
  const auto again = record::parse_sources(written, "x");
  must(again && *again == *sources, "what was written again is the same");
}

}  // namespace dl::ckpt::fuzz
