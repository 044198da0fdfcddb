// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/result_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/awake_clock.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "common/process/child_process.h"
#include "launcher/slurm_cli/slurm_cli.h"
#include "launcher/supervise/repeat.h"
#include "launcher/supervise/store_job.h"

namespace dl::supervise {
namespace {

constexpr uint64_t kStoreLookMs = 50;
constexpr int64_t kOverrunMs = 1000;  // dl-data knows its deadline, and is killed so long after it
constexpr size_t kMostStoreWords = 4096, kMostStoreProgress = 64 << 10, kShownStoreWords = 600;
constexpr std::string_view kDataItself = "dl-data: ";
constexpr int kDoesNotFit = 73;  // dl-data's exit status

// Whether others want the nodes now.
bool is_wanted(StopCause cause) {
  return cause == StopCause::kYield || cause == StopCause::kResize || cause == StopCause::kTogether ||
         cause == StopCause::kOtherNodes || cause == StopCause::kSlurmRequeue || cause == StopCause::kCancelled;
}

std::string words_at_end(const std::string& text) {
  std::string last;
  for (const std::string& line : split(text, '\n'))
    if (!trim(line).empty()) last = trim(line);
  if (last.rfind(kDataItself, 0) == 0) last.erase(0, kDataItself.size());
  return printable(last, kShownStoreWords);
}

Result<std::string> submit_store(const plan::LaunchPlan& plan, const record::JobDir& dir, int attempt,
                                 const std::string& name) {
  DL_TRY(make_directories(dir.data(), 0700));
  DL_TRY_ASSIGN(const std::string shown, slurm_cli::answer_of({"scontrol", "show", "job", plan.job_id}));
  DL_TRY_ASSIGN(const slurm_cli::JobText job, slurm_cli::parse_job_text(shown, plan.job_id));
  return slurm_cli::submit(store_job_options(job, name, dir), store_job_script(job, plan, dir, attempt));
}

}  // namespace

std::vector<std::string> store_command(const plan::LaunchPlan& plan, const record::JobDir& dir,
                                       std::optional<int64_t> limit_ms) {
  std::vector<std::string> words = {plan.data_program, "store"};
  const auto add = [&words](const std::string& folder, const char* name) {
    words.emplace_back("--from");
    words.push_back(folder + "=" + name);
  };
  add(dir.results(), "results");
  add(dir.logs(), "logs");
  add(dir.metrics(), "metrics");
  if (plan.results->checkpoint && plan.checkpoint) add(plan.checkpoint->path, "checkpoint");
  words.insert(words.end(), {"--to", plan.results->to, "--progress", dir.storing()});
  if (limit_ms) words.insert(words.end(), {"--deadline", std::to_string(std::max<int64_t>(*limit_ms / 1000, 1))});
  return words;
}

std::optional<int64_t> store_limit_ms(const RunState& state, std::optional<int64_t> end_ms, int64_t now_unix_ms) {
  if (state.decided.by_slurm) return 0;
  std::optional<int64_t> until = end_ms;
  const auto no_later = [&until](int64_t ms) { until = until ? std::min(*until, ms) : ms; };
  if (state.stop) {
    if (state.stop->deadline_ms) no_later(*state.stop->deadline_ms);
    if (state.stop->slurm_ends_ms != 0) no_later(state.stop->slurm_ends_ms + state.rules.kill_wait_s * 1000);
    const bool known = state.stop->deadline_ms || state.stop->slurm_ends_ms != 0;
    if (!known && is_wanted(state.stop->cause)) return 0;
  }
  if (!until) return std::nullopt;
  const int64_t left = *until - kAfterStoreMs - now_unix_ms;
  return left < kLeastStoreMs ? 0 : left;
}

std::optional<int64_t> hurry_ms(const NoticeReading& reading, int64_t now_unix_ms) {
  if (!reading.deadline_ms) return std::nullopt;
  return std::max<int64_t>(*reading.deadline_ms - kAfterStoreMs - now_unix_ms, 0);
}

std::string stored_text(const plan::LaunchPlan& plan, const StoreOutcome& outcome, int attempt, int64_t now_unix_ms) {
  Json json = {{"to", plan.results->to}, {"done", outcome.done}, {"attempt", attempt}, {"time_ms", now_unix_ms}};
  if (!outcome.text.empty()) json["reason"] = outcome.text;
  if (!outcome.job.empty()) json["job"] = outcome.job;
  return json.dump(1) + "\n";
}

ResultStore::~ResultStore() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  end_child(pid_, std::chrono::milliseconds(0));
}

void ResultStore::start(const plan::LaunchPlan& plan, const record::JobDir& dir, std::optional<int64_t> limit_ms,
                        std::function<void(const StoreOutcome&)> then) {
  then_ = std::move(then);
  words_.clear();
  progress_ = dir.storing();
  until_ms_ = limit_ms ? awake_ms() + *limit_ms + kOverrunMs : 0;
  StoreOutcome failed;
  failed.tried = true;
  Status ready = make_directories(dir.data(), 0700);
  auto errors = new_pipe();
  if (ready && !errors) ready = Status(errors.error());
  if (ready) {
    ::unlink(progress_.c_str());
    errors_ = std::move(errors->first);
    const UniqueFd its_errors = std::move(errors->second), null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ::fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
    SpawnOptions options;
    options.argv = store_command(plan, dir, limit_ms);
    options.stdout_fd = null.get();
    options.stderr_fd = its_errors.get();
    options.new_process_group = true;
    options.parent_death_signal = SIGKILL;  // the dlrun that takes the place of this one stores by itself
    options.ignored_signals = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    auto pid = spawn_process(options);
    if (pid)
      pid_ = *pid;
    else
      ready = std::move(pid).error();
  }
  if (!ready) failed.text = ready.error().text;
  repeat(loop_, kStoreLookMs, [this, failed] {
    if (pid_ > 0) return look();
    if (auto after = std::exchange(then_, {})) after(failed);
    return true;
  });
}

// True if it has ended.
bool ResultStore::look() {
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(errors_.get(), buffer, sizeof buffer)) > 0;) {
    words_.append(buffer, static_cast<size_t>(n));
    if (words_.size() > kMostStoreWords) words_.erase(0, words_.size() - kMostStoreWords);
  }
  const bool late = until_ms_ != 0 && awake_ms() >= until_ms_;
  if (late) ::kill(-pid_, SIGKILL);
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  pid_ = 0;
  StoreOutcome outcome;
  outcome.tried = true;
  const int exit = ended > 0 ? shell_exit_code(status) : 128 + SIGKILL;
  outcome.done = exit == 0;
  if (!outcome.done) outcome.text = words_at_end(words_);
  outcome.late = !outcome.done && (exit == kDoesNotFit || late);
  if (outcome.late) outcome.text = "the time did not suffice";
  if (!outcome.done && outcome.text.empty()) outcome.text = fmt::format("dl-data ended with status {}", exit);
  if (auto after = std::exchange(then_, {})) after(outcome);
  return true;
}

void ResultStore::hurry(int64_t ms) {
  const int64_t until = awake_ms() + ms;
  if (until_ms_ == 0 || until < until_ms_) until_ms_ = until;
}

std::string ResultStore::text() const {
  if (pid_ <= 0) return {};
  const auto read = read_small_file(progress_, kMostStoreProgress);
  if (!read) return "storing results";
  try {
    const Json json = Json::parse(*read);
    const auto number = [&json](const char* name) {
      return static_cast<uint64_t>(std::max<int64_t>(json.value(name, int64_t{0}), 0));
    };
    return fmt::format("storing results: {} of {} at {}/s", format_bytes(number("bytes")),
                       format_bytes(number("total")), format_bytes(number("rate")));
  } catch (const JsonError&) {
    return "storing results";
  }
}

void ResultStore::hand_over(const plan::LaunchPlan& plan, const record::JobDir& dir, int attempt,
                            std::function<void(const Result<std::string>&)> then) {
  auto id = std::make_shared<Result<std::string>>(Error{});
  calls_.post([id, plan, dir, attempt,
               name = store_job_name(plan.job_id, run_)] { *id = submit_store(plan, dir, attempt, name); },
              [id, then = std::move(then)] { then(*id); });
}

void ResultStore::take_back(const record::JobDir& dir) {
  const auto text = read_small_file(dir.stored(), kMostStoreProgress);
  const std::string job = text ? handed_to(*text) : std::string();
  if (job.empty()) return;
  calls_.post([job] { ignore(slurm_cli::cancel({job}), "it ends by itself if the job runs again"); }, {});
}

}  // namespace dl::supervise
