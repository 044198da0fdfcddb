// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/own_mutators.h"

#include <algorithm>

#include "launcher/data/part_file.h"
#include "tests/fuzz/entries_mutator.h"
#include "tests/fuzz/lines_mutator.h"
#include "tests/fuzz/random.h"

namespace dl::ckpt::fuzz {
namespace {

using Mutated = std::optional<std::string>;

// Lines behind a first byte that means something else, which is changed now and then, mostly to a small number.
Mutated behind_byte(const std::string& input, const Words& words, uint32_t seed, size_t max_size) {
  if (input.empty() || max_size == 0) return std::nullopt;
  Random random(seed);
  char first = input.front();
  if (random.below(8) == 0) first = static_cast<char>(random.below(random.below(2) == 0 ? 8 : 256));
  auto changed = mutate_lines(input.substr(1), words, seed, max_size - 1);
  if (changed) changed->insert(0, 1, first);
  return changed;
}

}  // namespace

// A byte, two times and an offset come first, and unless the first byte says that there is one, a header.
Mutated mutate_log_index(const std::string& input, uint32_t seed, size_t max_size) {
  static const Form kHeaderThere{"1553", {{Count::kAll, "448", false}}};
  static const Form kHeaderIn{"155388", {{Count::kAll, "448", false}}};
  if (input.empty()) return std::nullopt;
  Random random(seed);
  // Mostly it is what is asked of an index that changes: it is then not read again.
  if (random.below(4) != 0) {
    static const Form kAsked{"1553", {}};
    return mutate_entries(input, kAsked, seed, max_size);
  }
  return mutate_entries(input, (input.front() & 0x80) != 0 ? kHeaderThere : kHeaderIn, seed, max_size);
}

Mutated mutate_pool_messages(const std::string& input, uint32_t seed, size_t max_size) {
  static const List kPeers{Count::kTold, "44", true};
  static const Form kForms[] = {
      {"1", {{Count::kOne, "11448884", true}}},         // a message, and its key
      {"1", {kPeers}},                                  // members
      {"1", {{Count::kAll, "4", false}}},               // copies
      {"181", {kPeers, {Count::kTold, "481", false}}},  // a table: members, and owners of slots
      {"111148888", {}},                                // proofs
      {"1", {{Count::kTold, "8814", true}}},            // updates that a slot has seen
      {"1", {{Count::kAll, "11", false}}}};             // updates of clients
  if (input.empty()) return std::nullopt;
  return mutate_entries(input, kForms[static_cast<unsigned char>(input.front()) % std::size(kForms)], seed, max_size);
}

// The first line names the size that the first byte means; else nothing of the rest would be believed.
Mutated mutate_data_journal(const std::string& input, uint32_t seed, size_t max_size) {
  static const Words kWords{" ",
                            {"0", "1", "2", "7", "63", "-1", "0x1", "1f", "ffffffffffffffff", "10000000000000000",
                             "18446744073709551615", "18446744073709551616"},
                            {"0 1f", "1 0", "7 ffffffffffffffff", "3", "3 ", " 3 1"}};
  Random random(seed);
  if (input.empty() || random.below(8) == 0) return behind_byte(input, kWords, seed, max_size);
  const size_t line = std::min(input.find('\n', 1), input.size() - 1);
  auto changed = behind_byte(input.front() + input.substr(line + 1), kWords, seed, max_size);
  if (!changed) return changed;
  const uint64_t bytes = static_cast<unsigned char>(changed->front()) * (data::kChunkBytes / 4) + 1;
  changed->insert(1, data::journal_head(bytes, random.below(4) == 0 ? "other" : "boot"));
  if (changed->size() > max_size) return std::nullopt;
  return changed;
}

Mutated mutate_data_manifest(const std::string& input, uint32_t seed, size_t max_size) {
  static const Words kWords{
      " /:",
      {"F",
       "X",
       "D",
       "-",
       "0",
       "1",
       "-1",
       "1152921504606846975",
       "1152921504606846976",
       "9223372036854775807",
       "-9223372036854775808",
       "18446744073709551615",
       "18446744073709551616",
       "a",
       "b",
       "a b",
       ".",
       "..",
       "...",
       "\x7f",
       "\xc3\xa9",
       "",
       "md5:00ff",
       "xxh3:0123456789abcdef"},
      {"D 0 0 - - a", "D 0 7 - - a/b", "F 1 2 - - a", "F 1 2 - - a/b", "F 4 5 etag:0123 - a/b/c", "F 1 2 - - a-b",
       "X 7 -5 md5:00ff xxh3:0123456789abcdef a/run", "F 1152921504606846976 0 - - z"}};
  return mutate_lines(input, kWords, seed, max_size);
}

Mutated mutate_rclone_lines(const std::string& input, uint32_t seed, size_t max_size) {
  static const Words kWords{
      " :\"=/?&",
      {"pLanTeD",
       "token",
       "password",
       "X-Amz-Signature",
       "Authorization",
       "Bearer",
       "AKIA0123456789ABCDEF",
       "https",
       "user@host",
       "ERROR",
       "INFO",
       "DEBUG",
       "NOTICE",
       "Failed",
       "failed",
       "to",
       "access denied",
       "object not found",
       "permission denied",
       "no space left on device",
       "input/output error",
       "couldn't decrypt",
       "unknown flag",
       "status code: 403",
       "StatusCode: 404",
       "401 Unauthorized",
       "error 410",
       "didn't find section in config file"},
      {"2026/11/29 19:00:00 ERROR : a/b: Failed to copy: AccessDenied", "2026/11/29 19:00:00 INFO  : access denied",
       "[", "]", "\"", "access denied\"}",
       R"({"level":"error","msg":"x/no space left on device: object not found","object":"x/no space left on device"})",
       R"({"level":"info","msg":"access denied","object":"a"})", R"({"level":"notice","msg":"Failed to lsjson: 403"})",
       R"({"Path":"a","Size":1,"ModTime":"2024-02-29T12:00:00Z","IsDir":false,"Hashes":{"sha256":"0A"}},)"}};
  return mutate_lines(input, kWords, seed, max_size);
}

Mutated mutate_web_headers(const std::string& input, uint32_t seed, size_t max_size) {
  static const Words kWords{
      " :/-,\r",
      {"HTTP/1.1",
       "200",
       "206",
       "100",
       "302",
       "304",
       "999",
       "-1",
       "0",
       "9223372036854775807",
       "9223372036854775808",
       "bytes",
       "identity",
       "gzip",
       "W/",
       "\"v1\"",
       "\r",
       "%2F",
       "%zz",
       "%",
       "://",
       "?",
       "#",
       "Sun,",
       "Feb",
       "9999",
       "23:59:60",
       "GMT"},
      {"HTTP/1.1 200 OK\r", "HTTP/2 206 \r", "HTTP/1.1 100 Continue\r", "HTTP/1.1 302 Found\r", "HTTP/2 304 \r", "\r",
       "", "Content-Length: 10\r", "content-range: bytes 10-19/40\r", "Content-Range: bytes */40", "ETag: \"v1\"\r",
       "ETag: W/\"v1\"", "Accept-Ranges: bytes\r", "Content-Encoding: identity\r",
       "Last-Modified: Sun, 29 Nov 2026 19:00:00 GMT\r", "https://h/a/b%20c%2Fd?x=y#f"}};
  return behind_byte(input, kWords, seed, max_size);
}

}  // namespace dl::ckpt::fuzz
