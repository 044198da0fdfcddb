// SPDX-License-Identifier: Apache-2.0
#include "common/remote/rclone.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "common/base/lower_case.h"
#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/contract/data_request.h"
#include "common/contract/early_check.h"
#include "common/json/json.h"
#include "common/remote/scrub.h"

namespace dl::data {
namespace {

constexpr int64_t kAskMs = 30'000;
constexpr size_t kLogFront = 20;  // "2026/11/29 19:00:00 "

bool holds_any(const std::string& text, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return text.find(part) != std::string::npos; });
}

// Whether an answer of HTTP with this status is told of. The bare number would be found in requests' ids, too.
bool tells_status(const std::string& text, const std::string& code, const char* name) {
  return holds_any(text, {("status code: " + code).c_str(), ("statuscode: " + code).c_str(), ("error " + code).c_str(),
                          (code + " " + name).c_str(), ("error: " + code).c_str()});
}

// "message" of the last line that tells an error, without rclone's time and level.
std::string last_complaint(const std::string& said) {
  std::string best, last;
  for (const std::string& line : split(said, '\n')) {
    RcloneLine logged;
    std::string text;
    if (parse_logged(line, &logged)) {
      text = logged.object.empty() ? logged.message : logged.object + ": " + logged.message;
      if (logged.level == "error" || logged.level == "critical" || logged.level == "fatal") best = text;
    } else {
      text = trim(line);
      // "2026/11/29 19:00:00 ERROR : x"
      if (text.size() > kLogFront && text[4] == '/' && text[7] == '/' && text[10] == ' ') text.erase(0, kLogFront);
      if (text.find("ailed") != std::string::npos || text.compare(0, 5, "ERROR") == 0) best = text;
    }
    if (!text.empty()) last = text;
  }
  return best.empty() ? last : best;
}

// Without what is in double quotes, which is the name of something.
std::string without_quoted(std::string_view text) {
  std::string out;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (!quoted && c != '"') out += c;
  }
  return out;
}

Errc class_of(int status, const std::string& text) {
  if (holds_any(text, {"no space left on device", "disk quota exceeded", "not enough space"})) return Errc::kNoSpace;
  if (holds_any(text, {"input/output error", "read-only file system"})) return Errc::kIo;
  if (holds_any(text, {"accessdenied", "access denied", "invalidaccesskeyid", "signaturedoesnotmatch",
                       "permission denied", "unable to authenticate", "knownhosts", "invalid_grant", "expiredtoken",
                       "invalid credentials", "login incorrect", "authentication failed"}) ||
      tells_status(text, "401", "unauthorized") || tells_status(text, "403", "forbidden"))
    return Errc::kDenied;
  if (status == kRcloneNoFolder || status == kRcloneNoFile ||
      holds_any(text, {"directory not found", "object not found", "file not found", "nosuchbucket", "nosuchkey",
                       "didn't find section in config file", "no such file or directory"}) ||
      tells_status(text, "404", "not found") || tells_status(text, "410", "gone"))
    return Errc::kNotFound;
  if (holds_any(text, {"unable to decrypt configuration", "couldn't decrypt", "bad password", "didn't find backend",
                       "unknown flag", "unknown command"}))
    return Errc::kInvalid;
  return Errc::kBusy;
}

// What errors say, in lower case: what class they are of. Names of objects are whatever a user likes, so they are left
// out, and so are lines that tell of no error.
std::string words_of_errors(const std::string& said) {
  std::string words;
  for (const std::string& line : split(said, '\n')) {
    RcloneLine logged;
    std::string text;
    if (parse_logged(line, &logged)) {
      // Its last words, "Failed to lsjson: ...", have the level of a notice.
      const bool tells = logged.level == "error" || logged.level == "critical" || logged.level == "fatal" ||
                         logged.level == "emergency" || logged.level == "alert" ||
                         (logged.object.empty() && logged.message.compare(0, 9, "Failed to") == 0);
      if (!tells) continue;
      text = logged.message;
      if (class_of(0, lower_case(logged.object)) != Errc::kBusy)
        for (size_t at = text.find(logged.object); at != std::string::npos; at = text.find(logged.object))
          text.erase(at, logged.object.size());
    } else {
      text = trim(line);
      // Only the end of a long log is kept, so that its first line may have lost its beginning.
      if (!text.empty() && text.back() == '}') continue;
      if (text.size() > kLogFront && text[4] == '/' && text[7] == '/' && text[10] == ' ') text.erase(0, kLogFront);
      if (text.compare(0, 4, "INFO") == 0 || text.compare(0, 5, "DEBUG") == 0 || text.compare(0, 6, "NOTICE") == 0)
        continue;
    }
    words += lower_case(without_quoted(text)) + "\n";
  }
  return words;
}

}  // namespace

std::vector<std::string> rclone_command(const std::string& subcommand) {
  return {"rclone",           subcommand,      "--use-json-log",       "--retries=1",         "--low-level-retries=3",
          "--contimeout=15s", "--timeout=60s", "--ask-password=false", "--use-server-modtime"};
}

std::string below(const std::string& remote, const std::string& path) {
  if (path.empty()) return remote;
  return remote + (remote.back() == ':' || remote.back() == '/' ? "" : "/") + path;
}

bool parse_logged(std::string_view line, RcloneLine* logged) {
  if (line.empty() || line.front() != '{') return false;
  const Json json = Json::parse(line);
  if (!json.is_object()) return false;
  try {
    logged->level = json.value("level", std::string());
    logged->message = json.value("msg", std::string());
    logged->object = json.value("object", std::string());
    if (const Json* stats = json.find("stats"); stats != nullptr && stats->is_object()) {
      logged->bytes = stats->value("bytes", uint64_t{0});
      logged->total = stats->value("totalBytes", uint64_t{0});
    }
  } catch (const JsonError&) {
    return false;
  }
  return true;
}

Error rclone_error(const std::string& what, const HelperEnd& end) {
  std::string complaint = last_complaint(end.said);
  if (complaint.empty()) complaint = fmt::format("rclone ended with status {}", end.status);
  const std::string words = words_of_errors(end.said);
  const Errc code = class_of(end.status, words);
  std::string text = what + ": " + scrubbed(complaint, secrets_of_environment());
  if (words.find("didn't find section in config file") != std::string::npos)
    text = what + ": the remote is not in your rclone configuration on this node; make it with rclone config";
  return Error{code, text};
}

Error no_rclone(Error error) {
  if (error.code == Errc::kNotFound)
    return Error{Errc::kUnsupported,
                 "rclone is not installed on this node, and NAME:PATH is reached with it; install "
                 "rclone 1.60 or later"};
  return error;
}

Result<std::string> remote_type(const std::string& remote) {
  const std::string name = remote.substr(0, remote.find(':'));
  std::string listed, type;
  HelperRun run;
  run.argv = rclone_command("listremotes");
  run.argv.emplace_back("--long");
  run.stall_ms = kAskMs;
  run.out = [&](std::string_view data) {
    listed += data;
    return Status();
  };
  auto end = run_helper(run);
  if (!end) return no_rclone(std::move(end).error());
  if (end->status != 0) return rclone_error("read the configuration of rclone", *end);
  for (const std::string& line : split(listed, '\n')) {
    // "NAME:   type", the name perhaps with blanks in it.
    if (line.compare(0, name.size() + 1, name + ":") != 0) continue;
    type = trim(std::string_view(line).substr(name.size() + 1));
    return type.empty() ? std::string("unknown") : type;
  }
  return environment_value(remote_variable(name).c_str());
}

bool has_cheap_checksums(const std::string& type) {
  constexpr std::array kTypes{"s3",
                              "google cloud storage",
                              "gcs",
                              "azureblob",
                              "b2",
                              "swift",
                              "drive",
                              "onedrive",
                              "dropbox",
                              "box",
                              "jottacloud",
                              "pcloud",
                              "oracleobjectstorage",
                              "qingstor"};
  return std::any_of(kTypes.begin(), kTypes.end(), [&](const char* known) { return type == known; });
}

Status check_remote_known(const std::string& from) {
  DL_TRY_ASSIGN(const std::string type, remote_type(from));
  if (type.empty())
    return Error{Errc::kNotFound,
                 fmt::format("'{}' names a remote that is not in your rclone configuration; make it with "
                             "rclone config, or see rclone listremotes",
                             shown_place(from))};
  std::string said;
  HelperRun run;
  run.argv = {"rclone", "config", "file"};
  run.stall_ms = kAskMs;
  run.out = [&](std::string_view data) {
    said += data;
    return Status();
  };
  auto end = run_helper(run);
  if (!end || end->status != 0) return {};
  for (const std::string& line : split(said, '\n')) {
    struct stat status {};
    if (line.empty() || line.front() != '/' || ::stat(line.c_str(), &status) != 0) continue;
    if ((status.st_mode & 0077) != 0)
      return Error{Errc::kDenied, fmt::format("{} can be read by others, with the credentials in it; chmod 600 it",
                                              printable(line, 400))};
  }
  return {};
}

}  // namespace dl::data
