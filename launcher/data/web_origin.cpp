// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/web_origin.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <ctime>
#include <utility>

#include "common/base/lower_case.h"
#include "common/base/parse.h"
#include "common/remote/scrub.h"
#include "launcher/data/digest.h"
#include "launcher/data/fault.h"
#include "launcher/data/file_time.h"

namespace dl::data {
namespace {

constexpr uint64_t kWebSpan = 512 << 20;
constexpr unsigned kWebStreams = 4;
constexpr size_t kMostHeaders = 256 << 10;

int64_t number_in(std::string_view text) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? value : -1;
}

// A value of curl's configuration.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

Error changed(const std::string& url) {
  return Error{Errc::kConflict, shown_place(url) + " was changed since the transfer began"};
}

// kNotFound and the like of an answer's status.
Errc class_of_status(int status) {
  switch (status) {
    case 401:
    case 403:
    case 407:
    case 451:
      return Errc::kDenied;
    case 404:
    case 410:
      return Errc::kNotFound;
    case 412:
    case 416:
      return Errc::kConflict;
    case 408:
    case 425:
    case 429:
      return Errc::kBusy;
    default:
      return status >= 400 && status < 500 ? Errc::kInvalid : Errc::kBusy;
  }
}

}  // namespace

WebAnswer parse_answer(std::string_view headers) {
  WebAnswer answer;
  bool first = true;
  for (const std::string& raw : split(headers, '\n')) {
    const std::string_view line = trim(raw);
    if (std::exchange(first, false)) {
      const size_t blank = line.find(' ');
      if (line.substr(0, 5) == "HTTP/" && blank != std::string_view::npos)
        answer.status = static_cast<int>(std::max<int64_t>(0, number_in(line.substr(blank + 1, 3))));
      continue;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string name = lower_case(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    if (name == "content-length") answer.length = number_in(value);
    if (name == "etag" && value.substr(0, 2) != "W/") answer.etag = value;
    if (name == "accept-ranges") answer.ranges = lower_case(value) == "bytes";
    if (name == "content-encoding") answer.encoded = lower_case(value) != "identity" && !value.empty();
    if (name == "last-modified") {
      std::tm parts{};
      if (::strptime(std::string(value).c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts) != nullptr)
        answer.mtime_ns = ns_of(::timegm(&parts), 0);
    }
    if (name == "content-range" && lower_case(value.substr(0, 6)) == "bytes ") {
      const std::string_view range = value.substr(6);
      answer.from = number_in(range.substr(0, range.find('-')));
      if (const size_t slash = range.find('/'); slash != std::string_view::npos)
        answer.of = number_in(range.substr(slash + 1));
    }
  }
  return answer;
}

std::string_view HeaderReader::take(std::string_view data) {
  if (done_) return data;
  // What was there before holds no end of headers, but perhaps the beginning of one. With all of it looked through
  // again for each piece, the work would grow with the square of what a server sends byte by byte.
  size_t from = text_.size() - std::min<size_t>(3, text_.size());
  text_ += data;
  for (;; from = 0) {
    size_t end = text_.find("\r\n\r\n", from), size = 4;
    if (const size_t plain = text_.find("\n\n", from); plain < end) end = plain, size = 2;
    if (end == std::string::npos) {
      // No server has so many; what follows is taken for a body of an answer without a status.
      if (text_.size() > kMostHeaders) done_ = true;
      return {};
    }
    answer_ = parse_answer(std::string_view(text_).substr(0, end));
    text_.erase(0, end + size);
    const bool another = answer_.status / 100 == 1 || (answer_.status / 100 == 3 && answer_.status != 304);
    if (another) continue;
    done_ = true;
    body_.swap(text_);
    return body_;
  }
}

std::string name_in_url(std::string_view url) {
  const size_t scheme = url.find("://");
  url.remove_prefix(scheme == std::string_view::npos ? 0 : scheme + 3);
  url = url.substr(0, url.find_first_of("?#"));
  const size_t slash = url.rfind('/');
  if (slash == std::string_view::npos) return {};
  url.remove_prefix(slash + 1);
  std::string name;
  for (size_t i = 0; i < url.size(); ++i) {
    unsigned code = 0;
    const bool escaped = url[i] == '%' && i + 2 < url.size() &&
                         std::from_chars(url.data() + i + 1, url.data() + i + 3, code, 16).ptr == url.data() + i + 3;
    name += escaped ? static_cast<char>(code) : url[i];
    if (escaped) i += 2;
  }
  return name;
}

HelperRun WebOrigin::call(const std::string& more) const {
  HelperRun run;
  run.argv = {"curl", "--disable", "--config", "-"};
  run.input = fmt::format(
      "url = {}\ngloboff\nsilent\nshow-error\nfail\nlocation\nmax-redirs = 5\nproto = \"=https\"\nproto-redir = "
      "\"=https\"\n"
      "connect-timeout = 15\nspeed-limit = 1\nspeed-time = 60\nsuppress-connect-headers\nheader = \"Accept-Encoding: "
      "identity\"\n{}",
      quoted(url_), more);
  run.stop = &stop;
  return run;
}

Error WebOrigin::error_of(const Result<HelperEnd>& end, int status) const {
  if (!end && end.error().code == Errc::kNotFound)
    return Error{Errc::kUnsupported,
                 "curl is not installed on this node, and https URLs are fetched with it; install curl"};
  if (!end) return end.error();
  const std::string place = shown_place(url_);
  if (status >= 400)
    return Error{class_of_status(status), fmt::format("{}: the server answers with status {}", place, status)};
  constexpr int kBadUrl = 3, kNoHost = 6, kTooManyRedirects = 47, kNoTrust = 60, kProtocol = 1;
  const std::string said = scrubbed(trim(end->said), secrets_of_environment());
  const Error error{
      Errc::kBusy,
      fmt::format("{}: {}", place, said.empty() ? "curl ended with status " + std::to_string(end->status) : said)};
  if (end->status == kBadUrl || end->status == kTooManyRedirects || end->status == kProtocol)
    return Error{Errc::kInvalid, error.text};
  if (end->status == kNoTrust)
    return Error{Errc::kDenied,
                 fmt::format("{}: the server's certificate is not trusted on this node ({})", place, said)};
  if (end->status == kNoHost)
    return Error{Errc::kBusy, fmt::format("{}: the name of the host is not known on this node", place)};
  return error;
}

Result<WebAnswer> WebOrigin::ask(bool head) {
  HeaderReader headers;
  // A part of one byte tells as much where servers do not answer HEAD.
  HelperRun run =
      call(head ? "head\n" : "dump-header = \"-\"\noutput = \"/dev/null\"\nrange = \"0-0\"\nmax-filesize = 1048576\n");
  run.out = [&](std::string_view data) {
    headers.take(data);
    return Status();
  };
  const auto end = run_helper(run);
  WebAnswer answer = headers.answer();
  if (!end || (end->status != 0 && (head || answer.status / 100 != 2))) return error_of(end, answer.status);
  return answer;
}

Result<Manifest> WebOrigin::list() {
  auto answer = ask(true);
  // Some servers refuse HEAD with any of these.
  if (!answer && (answer.error().code == Errc::kInvalid || answer.error().code == Errc::kDenied)) answer = ask(false);
  if (!answer) return std::move(answer).error();
  Entry entry;
  entry.path = name_in_url(url_);
  if (entry.path.empty())
    return Error{Errc::kInvalid, shown_place(url_) + " names no file; allowed: https://HOST/.../FILE"};
  const int64_t size = answer->of >= 0 ? answer->of : answer->length;
  if (size < 0 || answer->encoded)
    return Error{Errc::kUnsupported, shown_place(url_) +
                                         ": the server does not tell the file's length, so it can be neither resumed "
                                         "nor checked for room; fetch it from elsewhere"};
  entry.size = static_cast<uint64_t>(size);
  entry.mtime_ns = answer->mtime_ns;
  etag_ = answer->etag;
  ranges_ = answer->ranges || answer->status == 206;
  if (!etag_.empty()) {
    Digest digest(DigestKind::kSha256);
    digest.add(etag_);
    entry.identity = "etag:" + digest.hex().substr(0, 32);
  }
  Manifest manifest;
  manifest.entries.push_back(std::move(entry));
  DL_TRY(settle(&manifest));
  return manifest;
}

Status WebOrigin::read(const Entry& entry, uint64_t offset, uint64_t count, const Take& take) {
  if (count == 0) return {};
  std::string more = "dump-header = \"-\"\n";
  if (ranges_) more += fmt::format("range = \"{}-{}\"\n", offset, offset + count - 1);
  // A server that keeps to HTTP answers with 412 if it has another file by now.
  if (ranges_ && !etag_.empty()) more += fmt::format("header = {}\n", quoted("If-Match: " + etag_));
  HelperRun run = call(more);
  HeaderReader headers;
  bool looked = false, enough = false;
  uint64_t skip = 0, left = count;
  run.out = [&](std::string_view data) -> Status {
    std::string_view body = headers.take(data);
    if (!headers.done()) return {};
    const WebAnswer& answer = headers.answer();
    if (answer.status / 100 != 2) return {};  // curl drops the page and fails
    if (!std::exchange(looked, true)) {
      const int64_t whole = answer.status == 206 ? answer.of : answer.length;
      const bool other = (!etag_.empty() && !answer.etag.empty() && answer.etag != etag_) ||
                         (whole >= 0 && static_cast<uint64_t>(whole) != entry.size) || answer.encoded ||
                         (answer.status == 206 && answer.from != static_cast<int64_t>(offset));
      if (other) return changed(url_);
      skip = answer.status == 206 ? 0 : offset;  // all of it comes
    }
    const uint64_t dropped = std::min<uint64_t>(skip, body.size());
    skip -= dropped;
    body = body.substr(dropped, left);
    left -= body.size();
    DL_TRY(take(body));
    enough = left == 0;
    // The rest of an answer that is longer than what was asked for is not waited for.
    if (enough && headers.answer().status != 206) return Error{Errc::kBusy, "enough"};
    return {};
  };
  const auto end = run_helper(run);
  if (enough) return {};
  if (end && end->status == 0) return {};  // the caller sees what is missing
  if (!end && end.error().code != Errc::kNotFound) return end.error();
  const int status = headers.answer().status;
  if (status == 412 || status == 416) return changed(url_);
  return error_of(end, status >= 400 ? status : 0);
}

uint64_t WebOrigin::span() const {
  return ranges_ ? kWebSpan : UINT64_MAX / 2;
}
unsigned WebOrigin::streams() const {
  return ranges_ ? kWebStreams : 1;
}

}  // namespace dl::data
