// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/data_fetcher.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "common/process/child_process.h"

extern char** environ;

namespace dl::agent {
namespace {

constexpr std::chrono::milliseconds kFetcherEndLimit{2000};
constexpr int64_t kFetcherLookMs = 200;
constexpr size_t kMostFetcherWords = 4096, kMostProgress = 64 << 10, kShownWords = 600;
constexpr const char* kItself = "dl-data: ";
constexpr const char* kForAgents = "DL_CONTROL";  // variables for agents, the job's secret among them
// What keep() leaves: dl-data's process id, our end of its input and, if that is open, of its errors.
constexpr const char* kKept = "DL_CONTROL_DATA";

bool survives_exec(const UniqueFd& fd) {
  return !fd || ::fcntl(fd.get(), F_SETFD, 0) == 0;
}

void close_at_exec(const UniqueFd& fd) {
  if (fd) ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
}

}  // namespace

Status DataFetcher::start(const protocol::Fetch& fetch) {
  end();
  DL_TRY_ASSIGN(auto input, new_pipe());
  DL_TRY_ASSIGN(auto errors, new_pipe());
  ::fcntl(errors.first.get(), F_SETFL, O_NONBLOCK);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return errno_error("open /dev/null", errno);
  ::unlink(fetch.progress.c_str());  // an earlier attempt's, which says that all is there
  SpawnOptions options;
  options.argv = fetch.command;
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    if (std::strncmp(*entry, kForAgents, std::strlen(kForAgents)) != 0) environment.emplace_back(*entry);
  options.environment = std::move(environment);
  options.stdin_fd = input.first.get();
  options.stdout_fd = null.get();
  options.stderr_fd = errors.second.get();
  options.new_process_group = true;
  // Slurm sends these to all processes of a job that it ends. The agent decides when the data is not needed any more.
  options.ignored_signals = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
  DL_TRY_ASSIGN(pid_, spawn_process(options));
  alive_ = std::move(input.second);
  errors_ = std::move(errors.first);
  progress_ = fetch.progress;
  told_ = {};
  return {};
}

void DataFetcher::read_errors() {
  char buffer[4096];
  while (errors_) {
    const ssize_t n = ::read(errors_.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return errors_.reset();
    words_.append(buffer, static_cast<size_t>(n));
    if (words_.size() > kMostFetcherWords) words_.erase(0, words_.size() - kMostFetcherWords);
  }
}

// True if it says something new.
bool DataFetcher::read_progress() {
  const auto text = read_small_file(progress_, kMostProgress);
  if (!text) return false;
  protocol::Fetched now;
  try {
    const Json json = Json::parse(*text);
    if (!json.is_object()) return false;
    now.state = json.value("state", std::string());
    now.bytes = json.value("bytes", int64_t{0});
    now.total = json.value("total", int64_t{0});
    now.files = json.value("files", int64_t{0});
    now.all_files = json.value("all_files", int64_t{0});
    now.rate = json.value("rate", int64_t{0});
  } catch (const JsonError&) {
    return false;
  }
  now.done = now.state == "done";
  const bool news = now.state != told_.state || now.bytes != told_.bytes || now.total != told_.total ||
                    now.files != told_.files || now.all_files != told_.all_files || now.rate != told_.rate;
  told_ = std::move(now);
  return news;
}

std::optional<protocol::Fetched> DataFetcher::look(int64_t now_ms) {
  if (pid_ <= 0) return std::nullopt;
  read_errors();
  if (told_.done || now_ms - looked_ms_ < kFetcherLookMs) return std::nullopt;
  looked_ms_ = now_ms;
  if (!read_progress()) return std::nullopt;
  return told_;
}

std::optional<protocol::Fetched> DataFetcher::reaped(pid_t pid, int exit) {
  if (pid != pid_) return std::nullopt;
  pid_ = 0;
  read_errors();
  read_progress();
  told_.exit = exit;
  told_.done = false;
  told_.error = last_line(words_);
  return told_;
}

void DataFetcher::keep() {
  if (pid_ <= 0 || !told_.done || !survives_exec(alive_) || !survives_exec(errors_)) return;
  std::string kept = fmt::format("{} {}", pid_, alive_.get());
  if (errors_) kept += fmt::format(" {}", errors_.get());
  if (::setenv(kKept, kept.c_str(), 1) != 0) return;
  alive_.release();
  errors_.release();
  pid_ = 0;
}

void DataFetcher::adopt() {
  const char* value = std::getenv(kKept);
  if (value == nullptr) return;
  const std::vector<std::string> words = split(value, ' ');
  ::unsetenv(kKept);
  if (words.size() != 2 && words.size() != 3) return;
  const auto pid = parse_int(words[0], 1, INT_MAX), alive = parse_int(words[1], 0, INT_MAX);
  const auto errors = parse_int(words.back(), 0, INT_MAX);
  if (!pid || !alive || !errors) return;
  // Of a process that is no child of this one, nothing else is believed either.
  const pid_t ended = ::waitpid(static_cast<pid_t>(*pid), nullptr, WNOHANG);
  if (ended < 0) return;
  alive_.reset(static_cast<int>(*alive));
  if (words.size() == 3) errors_.reset(static_cast<int>(*errors));
  if (ended > 0) return end();
  close_at_exec(alive_);
  close_at_exec(errors_);
  pid_ = static_cast<pid_t>(*pid);
  told_.done = adopted_ = true;
}

void DataFetcher::end() {
  alive_.reset();
  errors_.reset();
  if (pid_ > 0) end_child(pid_, kFetcherEndLimit);
  pid_ = 0;
  adopted_ = false;
  words_.clear();
}

DataFetcher::~DataFetcher() {
  end();
}

std::string last_line(const std::string& text) {
  std::string last;
  for (const std::string& line : split(text, '\n'))
    if (!trim(line).empty()) last = trim(line);
  if (last.rfind(kItself, 0) == 0) last.erase(0, std::strlen(kItself));
  return printable(last, kShownWords);
}

}  // namespace dl::agent
