// SPDX-License-Identifier: Apache-2.0
// Lines that rclone prints: of its list of files, and of its log. The names in them are whatever somebody has called
// his objects.
#include "common/base/parse.h"
#include "common/remote/rclone.h"
#include "common/remote/scrub.h"
#include "launcher/data/digest.h"
#include "launcher/data/fault.h"
#include "launcher/data/listing.h"
#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {
namespace {

constexpr const char* kPlanted = "pLanTeD";

void listed(const std::string& line) {
  data::Entry entry;
  const auto read = data::parse_listed(line, &entry);
  if (!read) {
    const int exit = data::exit_status(read.error());
    must(exit == data::kExitUser || exit == data::kExitLater, "a wrong list is the user's or may pass");
    return;
  }
  if (!*read) return;
  must(entry.size <= INT64_MAX && (!entry.folder || entry.size == 0), "a file has a size, and a folder none");
  const size_t colon = entry.identity.find(':');
  must(entry.identity.empty() || (data::is_checksum(entry.identity) && colon + 1 < entry.identity.size() &&
                                  entry.identity.find_first_not_of("0123456789abcdef", colon + 1) == std::string::npos),
       "an identity is a checksum");
}

// One line of a log says the same whether or not others that tell no error stand beside it.
void logged(const std::string& line) {
  data::RcloneLine read;
  if (data::parse_logged(line, &read)) {
    must(line.front() == '{', "what is logged is an object");
    data::HelperEnd alone, beside;
    alone.status = beside.status = 1;
    alone.said = line;
    beside.said = R"({"level":"info","msg":"access denied","object":"object not found"})"
                  "\n" +
                  line;
    must(data::rclone_error("list", alone).code == data::rclone_error("list", beside).code,
         "what tells no error decides no class");
  }
}

}  // namespace

void rclone_lines(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  static FirstTime first_time;
  for (const std::string& line : split(text, '\n')) {
    if (!first_time(line)) continue;
    listed(line);
    logged(line);
  }
  data::HelperEnd end;
  end.status = 1;
  end.said = text;
  const Error error = data::rclone_error("list lab:x", end);
  must(error.text.find('\n') == std::string::npos && error.text.compare(0, 12, "list lab:x: ") == 0,
       "an error is one sentence that says what was done");
  must(data::scrubbed(text, {kPlanted}).find(kPlanted) == std::string::npos, "a secret that is known is not shown");
}

}  // namespace dl::ckpt::fuzz
