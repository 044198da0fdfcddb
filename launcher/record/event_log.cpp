// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/event_log.h"
#include "common/base/clock.h"
#include "common/json/json.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>

namespace dl::record {
namespace {

constexpr size_t kMaxLine = 64 << 10;
constexpr size_t kMaxText = 2000;
constexpr off_t kMaxRead = 64 << 20;

// Reads a member. A wrong type gives kInvalid; a missing optional member leaves *out as it is.
template <typename T>
Status take(const Json& object, const char* key, T* out, bool required = false) {
  const Json* it = object.find(key);
  if (it == nullptr) {
    if (required) return Error{Errc::kInvalid, fmt::format("an event has no '{}'", key)};
    return {};
  }
  bool right = false;
  if constexpr (std::is_same_v<T, std::string>) {
    right = it->is_string();
  } else if constexpr (std::is_same_v<T, bool>) {
    right = it->is_boolean();
  } else {
    right = it->is_number_integer();
  }
  if (!right) return Error{Errc::kInvalid, fmt::format("an event has a '{}' of the wrong type or out of range", key)};
  *out = it->get<T>();
  return {};
}

template <typename T>
Status take(const Json& object, const char* key, std::optional<T>* out) {
  if (!object.contains(key)) return {};
  T value{};
  DL_TRY(take(object, key, &value));
  *out = value;
  return {};
}

// Members of other types are of another version, and left out.
UsedInAll use_from(const Json& object) {
  constexpr size_t kMostNumbers = 100;
  UsedInAll use;
  for (const JsonMember& member : object.members()) {
    if (member.name == "text" && member.value.is_string()) use.text = member.value.text();
    if (member.value.is_number() && use.numbers.size() < kMostNumbers)
      use.numbers[member.name] = member.value.get<double>();
  }
  return use;
}

}  // namespace

std::string format_event(const Event& event) {
  Json line;
  line["time_ms"] = event.time_ms;
  line["attempt"] = event.attempt;
  if (event.learner) line["learner"] = *event.learner;
  line["state"] = state_name(event.state);
  if (!event.reason.empty()) line["reason"] = event.reason.substr(0, kMaxText);
  if (event.step) line["step"] = *event.step;
  if (!event.code.empty()) line["code"] = event.code;
  if (event.restart) line["restart"] = *event.restart;
  if (event.exit) line["exit"] = *event.exit;
  if (!event.host.empty()) line["host"] = event.host;
  if (!event.failure.empty()) line["failure"] = event.failure;
  if (!event.signature.empty()) line["signature"] = event.signature;
  if (event.preempted) line["preempted"] = true;
  if (event.once_more) line["once_more"] = *event.once_more;
  if (!event.command.empty()) line["command"] = event.command;
  if (event.memory) line["memory"] = to_json(*event.memory);
  if (!event.run.empty()) line["run"] = event.run;
  if (event.start) line["start"] = *event.start;
  if (event.passed) line["passed"] = true;
  if (event.use) {
    Json use = Json::object();
    if (!event.use->text.empty()) use["text"] = event.use->text.substr(0, kMaxText);
    for (const auto& [name, number] : event.use->numbers) use[name] = number;
    line["use"] = std::move(use);
  }
  return line.dump();
}

Result<Event> parse_event(const std::string& line) {
  if (line.size() > kMaxLine)
    return Error{Errc::kInvalid, "the line of an event is longer than 64 KiB, the most that is allowed"};
  Json object = Json::parse(line);
  if (!object.is_object()) return Error{Errc::kInvalid, "the line of an event is not a JSON object"};
  Event event;
  std::string state;
  DL_TRY(take(object, "time_ms", &event.time_ms, true));
  DL_TRY(take(object, "attempt", &event.attempt, true));
  DL_TRY(take(object, "state", &state, true));
  DL_TRY(take(object, "reason", &event.reason));
  DL_TRY(take(object, "learner", &event.learner));
  DL_TRY(take(object, "step", &event.step));
  DL_TRY(take(object, "code", &event.code));
  DL_TRY(take(object, "restart", &event.restart));
  DL_TRY(take(object, "exit", &event.exit));
  DL_TRY(take(object, "host", &event.host));
  DL_TRY(take(object, "failure", &event.failure));
  DL_TRY(take(object, "signature", &event.signature));
  DL_TRY(take(object, "preempted", &event.preempted));
  DL_TRY(take(object, "once_more", &event.once_more));
  DL_TRY(take(object, "command", &event.command));
  DL_TRY(take(object, "run", &event.run));
  DL_TRY(take(object, "start", &event.start));
  DL_TRY(take(object, "passed", &event.passed));
  if (const Json* use = object.find("use"); use != nullptr && use->is_object()) event.use = use_from(*use);
  if (const Json* memory = object.find("memory"); memory != nullptr) {
    DL_TRY_ASSIGN(event.memory, memory_from(*memory));
  }
  auto parsed = parse_state(state);
  if (!parsed) return Error{Errc::kInvalid, "an event has a state that is not known"};
  event.state = *parsed;
  return event;
}

Result<EventLog> EventLog::open(const std::string& path) {
  EventLog log;
  log.fd_.reset(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!log.fd_) return errno_error("open " + path, errno);
  struct stat status {};
  if (::fstat(log.fd_.get(), &status) != 0) return errno_error("stat " + path, errno);
  char last = '\n';
  if (status.st_size > 0 && ::pread(log.fd_.get(), &last, 1, status.st_size - 1) == 1 && last != '\n') {
    // A crash has cut off the last line. It is ended here, so that the next event gets a line of its own.
    if (::write(log.fd_.get(), "\n", 1) != 1) return errno_error("write " + path, errno);
  }
  return log;
}

Status EventLog::append(Event event) {
  if (event.time_ms == 0) event.time_ms = unix_ms();
  std::string line = format_event(event) + "\n";
  ssize_t n;
  do n = ::write(fd_.get(), line.data(), line.size());
  while (n < 0 && errno == EINTR);
  if (n < 0) return errno_error("write events.jsonl", errno);
  if (static_cast<size_t>(n) != line.size())
    return Error{Errc::kNoSpace, "write events.jsonl: No space left on device"};
  if ((is_final(event.state) || event.state == JobState::kPending) && ::fsync(fd_.get()) != 0)
    return errno_error("fsync events.jsonl", errno);
  return {};
}

Result<EventHistory> read_events(const std::string& path) {
  EventHistory history;
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && errno == ENOENT) return history;
  if (!fd) return errno_error("open " + path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return errno_error("stat " + path, errno);
  if (!S_ISREG(status.st_mode)) return Error{Errc::kInvalid, path + ": not a regular file"};
  auto found = read_events(fd.get(), kMaxRead);
  if (!found) return std::move(found).error().with_context(path);
  return found;
}

// Reads block by block, since the file may be of any size, and a line as long as the file.
Result<EventHistory> read_events(int fd, int64_t most_bytes) {
  EventHistory history;
  struct stat status {};
  if (::fstat(fd, &status) != 0) return errno_error("stat", errno);
  off_t at = std::max<off_t>(0, status.st_size - most_bytes);
  const off_t end = at + most_bytes;
  bool passing_over = at > 0;  // in a line whose beginning was not read, or that is too long
  std::string line;
  char buffer[65536];
  const auto take_line = [&] {
    if (passing_over) {
      passing_over = false;
    } else if (!line.empty()) {
      if (Result<Event> event = parse_event(line))
        history.events.push_back(std::move(*event));
      else
        ++history.skipped_lines;
    }
    line.clear();
  };
  while (at <= end) {
    const ssize_t n = ::pread(fd, buffer, sizeof buffer, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("read", errno);
    if (n == 0) break;
    at += n;
    const std::string_view block(buffer, static_cast<size_t>(n));
    for (size_t begin = 0; begin < block.size();) {
      const size_t brk = std::min(block.find('\n', begin), block.size());
      if (!passing_over) line.append(block, begin, brk - begin);
      if (line.size() > kMaxLine) {
        line.clear();
        passing_over = true;
        ++history.skipped_lines;
      }
      if (brk < block.size()) take_line();
      begin = brk + 1;
    }
  }
  take_line();
  return history;
}

Interruptions count_interruptions(const std::vector<Event>& events) {
  struct Attempt {
    int64_t started_ms = 0, last_ms = 0;  // started: when it was first PROCESSING
    bool announced = false;               // a save or an end in good order came before the interruption
  };
  std::map<int, Attempt> attempts;
  for (const Event& event : events) {
    if (event.attempt < 1) continue;
    Attempt& attempt = attempts[event.attempt];
    attempt.last_ms = std::max(attempt.last_ms, event.time_ms);
    if (event.learner) continue;
    if (event.state == JobState::kProcessing && attempt.started_ms == 0) attempt.started_ms = event.time_ms;
    // With an error code, a failure and not a stop led to the requeue or the hold.
    if (event.state == JobState::kCompleted) attempt.announced = true;
    if (event.state == JobState::kPending || event.state == JobState::kHalted) attempt.announced = event.code.empty();
  }
  Interruptions result;
  for (auto it = attempts.begin(); it != attempts.end() && std::next(it) != attempts.end(); ++it) {
    if (it->second.started_ms == 0) continue;  // it never trained
    result.running_s += static_cast<double>(it->second.last_ms - it->second.started_ms) / 1000;
    if (!it->second.announced) ++result.unannounced;
  }
  return result;
}

Status record_put_back(const std::string& path, bool hold, const std::string& reason, const std::string& code) {
  DL_TRY_ASSIGN(const EventHistory history, read_events(path));
  DL_TRY_ASSIGN(EventLog log, EventLog::open(path));
  Event event;
  event.attempt = summarise(history.events).attempts;
  event.state = hold ? JobState::kHalted : JobState::kPending;
  event.reason = reason;
  event.code = code;
  return log.append(std::move(event));
}

JobSummary summarise(const std::vector<Event>& events) {
  JobSummary summary;
  int attempt = 0;  // of the newest event about the job
  for (const Event& event : events) {
    summary.attempts = std::max(summary.attempts, event.attempt);
    if (event.step) summary.newest_step = std::max(summary.newest_step, *event.step);
    if (event.learner) continue;
    if (event.state == JobState::kDeploy && !summary.first_start_ms) summary.first_start_ms = event.time_ms;
    // A save or a warning does not change the state. A start that passes over a completed run begins the state anew.
    if (summary.state != event.state || event.attempt != attempt || event.passed)
      summary.state_since_ms = event.time_ms;
    attempt = event.attempt;
    summary.state = event.state;
    summary.reason = event.reason;
    summary.once_more = event.once_more;
    if (event.start) summary.start = event.start;
  }
  return summary;
}

}  // namespace dl::record
