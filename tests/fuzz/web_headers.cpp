// SPDX-License-Identifier: Apache-2.0
// What a web server answers, as curl passes it on: headers, perhaps those of several answers, and then the body. The
// first byte says in which pieces it comes.
#include "launcher/data/manifest.h"
#include "launcher/data/web_origin.h"
#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {
namespace {

std::string body_of(std::string_view text, size_t step, data::HeaderReader* reader) {
  std::string body;
  for (size_t at = 0; at < text.size(); at += step) body += reader->take(text.substr(at, step));
  return body;
}

}  // namespace

void web_headers(const uint8_t* data, size_t size) {
  Bytes input(data, size);
  const size_t step = 1 + input.u8();
  const std::string text = input.rest();
  data::HeaderReader whole, pieces;
  const std::string body = body_of(text, text.size() + 1, &whole);
  const std::string other = body_of(text, step, &pieces);
  must(whole.done() == pieces.done() && body == other, "the pieces in which an answer comes do not matter");
  const data::WebAnswer &one = whole.answer(), &two = pieces.answer();
  must(one.status == two.status && one.length == two.length && one.etag == two.etag && one.mtime_ns == two.mtime_ns &&
           one.from == two.from && one.of == two.of && one.ranges == two.ranges && one.encoded == two.encoded,
       "an answer that comes in pieces says the same");
  must(one.length >= -1 && one.from >= -1 && one.of >= -1 && one.status >= 0 && one.status <= 999,
       "numbers are ones, or not told");
  must(!whole.done() || text.size() >= body.size() + 2, "a body is what follows the headers");
  must(data::name_in_url(text).size() <= text.size(), "a name is a part of its URL");
}

}  // namespace dl::ckpt::fuzz
