// SPDX-License-Identifier: Apache-2.0
// A source that is a file of a web server, read with curl: it gets the URL on its standard input, so that it is in no
// list of processes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/remote/helper.h"
#include "launcher/data/origin.h"

namespace dl::data {

// What a web server says of a file. Pure.
struct WebAnswer {
  int status = 0;
  int64_t length = -1;         // of what follows; -1: not told
  int64_t from = -1, of = -1;  // "Content-Range: bytes FROM-TO/OF"
  std::string etag;
  int64_t mtime_ns = 0;
  bool ranges = false;
  bool encoded = false;  // compressed on its way, against our wish
};

// Finds where the headers end in what curl prints. Answers before the last one (redirections, 1xx) are passed over.
class HeaderReader {
 public:
  // Takes what comes; returns the part of it that belongs to the body, once done().
  std::string_view take(std::string_view data);
  bool done() const { return done_; }
  const WebAnswer& answer() const { return answer_; }

 private:
  std::string text_, body_;
  WebAnswer answer_;
  bool done_ = false;
};
WebAnswer parse_answer(std::string_view headers);
// The file's name: the last part of the URL's path, with %XX decoded. Empty if it has none.
std::string name_in_url(std::string_view url);

class WebOrigin : public Origin {
 public:
  explicit WebOrigin(std::string url) : url_(std::move(url)) {}

  Result<Manifest> list() override;
  Status read(const Entry& entry, uint64_t offset, uint64_t count, const Take& take) override;
  uint64_t span() const override;
  unsigned streams() const override;
  uint64_t small() const override { return 0; }

 private:
  HelperRun call(const std::string& more) const;
  Error error_of(const Result<HelperEnd>& end, int status) const;
  Result<WebAnswer> ask(bool head);

  const std::string url_;
  std::string etag_;
  bool ranges_ = false;
};

}  // namespace dl::data
