// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/objects/rclone_objects.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/base/parse.h"
#include "common/contract/objects_place.h"
#include "common/remote/rclone.h"

namespace dl::ckpt {
namespace {

// The end of a name under which a manifest lies until it is whole.
constexpr const char* kPartEnding = ".part";
// rclone waits 60 s for a server (--timeout), thrice, and says nothing meanwhile.
constexpr int64_t kStallMs = 300'000;
constexpr size_t kLongestList = size_t{256} << 20;

struct Call {
  std::vector<std::string> words;  // after the subcommand and the flags of all calls
  ObjectLevel::NextPiece next{};
  ObjectLevel::TakePiece take{};
};

Result<data::HelperEnd> call(const std::string& subcommand, Call call) {
  data::HelperRun run;
  run.argv = data::rclone_command(subcommand);
  // Where nothing large is moved, trying again is left to our callers: rclone's own way takes 23 s for one answer of
  // 503.
  if (subcommand != "rcat" && subcommand != "cat") run.argv.emplace_back("--low-level-retries=1");
  run.argv.insert(run.argv.end(), call.words.begin(), call.words.end());
  run.next = std::move(call.next);
  run.out = std::move(call.take);
  run.stall_ms = kStallMs;
  auto end = data::run_helper(run);
  if (!end) return data::no_rclone(std::move(end).error());
  return end;
}

// Whether rclone says that what should be removed is not there.
bool was_missing(const data::HelperEnd& end, const Error& error) {
  return error.code == Errc::kNotFound || end.said.find("doesn't exist") != std::string::npos;
}

}  // namespace

Result<std::unique_ptr<RcloneObjects>> RcloneObjects::open(const std::string& place) {
  DL_TRY(check_objects_place(place));
  DL_TRY(data::check_remote_known(place));
  std::string root = place;
  while (root.back() == '/') root.pop_back();
  return std::unique_ptr<RcloneObjects>(new RcloneObjects(std::move(root)));
}

std::string RcloneObjects::place(const std::string& key) const {
  return data::below(root_, key);
}

Status RcloneObjects::put_at(const std::string& place, uint64_t size, const NextPiece& next) {
  uint64_t given = 0;
  const auto counted = [&]() -> Result<std::string_view> {
    DL_TRY_ASSIGN(const std::string_view piece, next());
    given += piece.size();
    if (given > size || (piece.empty() && given != size))
      return Error{Errc::kInternal, fmt::format("{}: {} bytes instead of {}", printable(place, 400), given, size)};
    return piece;
  };
  DL_TRY_ASSIGN(const data::HelperEnd end, call("rcat", {{fmt::format("--size={}", size), place}, counted, {}}));
  if (end.status != 0) return data::rclone_error("send " + printable(place, 400), end);
  if (given != size) return Error{Errc::kBusy, "send " + printable(place, 400) + ": rclone ended before all was sent"};
  return {};
}

Status RcloneObjects::put(const std::string& key, uint64_t size, const NextPiece& next) {
  if (key.substr(key.rfind('/') + 1) != kManifestName) return put_at(place(key), size, next);
  const std::string part = place(key + kPartEnding);
  DL_TRY(put_at(part, size, next));
  DL_TRY_ASSIGN(const data::HelperEnd end, call("moveto", {{part, place(key)}, {}, {}}));
  if (end.status != 0) return data::rclone_error("send " + printable(place(key), 400), end);
  return {};
}

Status RcloneObjects::read(const std::string& key, uint64_t at, uint64_t size, const TakePiece& take) {
  if (size == 0) return {};
  uint64_t taken = 0;
  const auto counted = [&](std::string_view piece) -> Status {
    taken += piece.size();
    if (taken > size) return Error{Errc::kBusy, fmt::format("{}: the server sends too much", printable(key, 400))};
    return take(piece);
  };
  Call words{{fmt::format("--offset={}", at), fmt::format("--count={}", size), place(key)}, {}, counted};
  DL_TRY_ASSIGN(const data::HelperEnd end, call("cat", std::move(words)));
  if (end.status != 0) return data::rclone_error("read " + printable(place(key), 400), end);
  // rclone counts a missing object, and one that ends before, as success.
  if (taken < size)
    return Error{Errc::kCorrupt, fmt::format("{}: it ends before byte {}", printable(place(key), 400), at + size)};
  return {};
}

Result<std::vector<ObjectLevel::Object>> RcloneObjects::list(const std::string& folder) {
  std::string text;
  const auto take = [&](std::string_view piece) -> Status {
    text += piece;
    if (text.size() > kLongestList)
      return Error{Errc::kInvalid, fmt::format("{} has more objects than can be listed; allowed: a path for the "
                                               "checkpoints of one run alone",
                                               printable(root_, 400))};
    return {};
  };
  Call words{{"--recursive", "--files-only", "--format=sp", "--separator=\t"}, {}, take};
  if (folder.empty()) words.words.emplace_back("--include=/step-*/*");
  words.words.push_back(folder.empty() ? root_ : place(folder));
  DL_TRY_ASSIGN(const data::HelperEnd end, call("lsf", std::move(words)));
  if (end.status != 0) {
    // A place that cannot be opened must not count as an empty one: a program would start anew.
    if (end.status == data::kRcloneNoFolder) return std::vector<Object>();
    Error error = data::rclone_error("list " + printable(root_, 400), end);
    if (error.code == Errc::kNotFound) error.code = Errc::kInvalid;  // the remote's configuration
    return error;
  }
  std::vector<Object> objects;
  for (const std::string& line : split(text, '\n')) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;
    const auto size = parse_int(line.substr(0, tab), 0, INT64_MAX);
    if (!size) continue;  // no size, so nothing that we have put
    const std::string path = line.substr(tab + 1);
    objects.push_back({folder.empty() ? path : folder + "/" + path, static_cast<uint64_t>(*size)});
  }
  return objects;
}

Status RcloneObjects::erase(const std::string& key) {
  DL_TRY_ASSIGN(const data::HelperEnd end, call("deletefile", {{place(key)}, {}, {}}));
  if (end.status == 0) return {};
  Error error = data::rclone_error("remove " + printable(place(key), 400), end);
  if (was_missing(end, error)) return {};
  return error;
}

Status RcloneObjects::erase_folder(const std::string& folder) {
  DL_TRY_ASSIGN(const data::HelperEnd end, call("purge", {{place(folder)}, {}, {}}));
  if (end.status == 0) return {};
  Error error = data::rclone_error("remove " + printable(place(folder), 400), end);
  if (was_missing(end, error)) return {};
  return error;
}

}  // namespace dl::ckpt
