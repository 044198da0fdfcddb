// SPDX-License-Identifier: Apache-2.0
#include "launcher/runs/admit.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/contract/env_names.h"
#include "launcher/record/job_dir.h"
#include "launcher/record/job_runs.h"
#include "launcher/runs/choose_run.h"

namespace dl::runs {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 100ms;
constexpr int kMostAncestors = 64;

volatile sig_atomic_t term_came = 0;

// While a run waits, nothing of it can be saved. It must not end either: the batch script might end with it, and with
// the script all others.
class Patience {
 public:
  Patience() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGUSR1, &ignore, &usr1_);
    ::sigaction(SIGUSR2, &ignore, &usr2_);
    struct sigaction note {};
    note.sa_handler = [](int) { term_came = 1; };
    ::sigaction(SIGTERM, &note, &term_);
  }
  ~Patience() {
    ::sigaction(SIGUSR1, &usr1_, nullptr);
    ::sigaction(SIGUSR2, &usr2_, nullptr);
    ::sigaction(SIGTERM, &term_, nullptr);
  }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  struct sigaction usr1_ {
  }, usr2_{}, term_{};
};

// A run makes its directory some time after it was booked, so those that are booked count without one too.
std::vector<PastRun> past_runs(const std::string& first, bool first_alone, const JobBook& book, const ProcessId& own) {
  std::vector<PastRun> past;
  for (const BookedRun& each : book.runs)
    if (!(each.guard == own) && each.dir == record::run_dir(first, each.number))
      past.push_back({each.number, true, {}});
  for (const record::RunDir& dir : record::run_dirs(first)) {
    if (first_alone && dir.number > 1) break;
    // One that is in use is taken by nobody, whatever its events say.
    if (std::any_of(past.begin(), past.end(), [&](const PastRun& each) { return each.number == dir.number; })) continue;
    PastRun run{dir.number, false, {}};
    if (auto history = record::read_events(record::JobDir(dir.path).events())) run.events = std::move(history->events);
    past.push_back(std::move(run));
  }
  std::sort(past.begin(), past.end(), [](const PastRun& a, const PastRun& b) { return a.number < b.number; });
  return past;
}

// The next start of the script counts it.
void write_passed(const std::string& dir, const record::Event& completed, const RunIdentity& identity, int start) {
  auto log = record::EventLog::open(record::JobDir(dir).events());
  if (!log) return;
  record::Event event = completed;
  event.time_ms = 0;
  event.reason = fmt::format("completed in attempt {}, and is not run again", completed.attempt);
  event.run = identity.text();
  event.start = start;
  event.passed = true;
  event.memory.reset();
  ignore(log->append(std::move(event)), "then it is at most run once more");
}

std::string names_of(const std::string& job_id, const std::vector<BookedRun>& runs) {
  std::string names;
  for (const BookedRun& run : runs) names += fmt::format("{}{}.{}", names.empty() ? "" : ", ", job_id, run.number);
  return names;
}

// One try, under the lock of the book.
class Try {
 public:
  Try(const Applicant& applicant, const plan::LaunchPlan& whole, const plan::PlanInput& input, Admission* admission)
      : applicant_(applicant), whole_(whole), input_(input), admission_(admission) {}

  // Whether the book has changed.
  bool look(JobBook* book);

  bool admitted = false;
  Status refused;
  std::string waits_for;  // neither
  std::vector<BookedRun> others;
  plan::PlanInput free;  // admitted: what is left for this run

 private:
  bool enter(JobBook* book, BookedRun* own);

  const Applicant& applicant_;
  const plan::LaunchPlan& whole_;
  const plan::PlanInput& input_;
  Admission* admission_;
};

bool Try::look(JobBook* book) {
  BookedRun* own = nullptr;
  for (BookedRun& run : book->runs) {
    if (run.guard == applicant_.guard)
      own = &run;
    else
      others.push_back(run);
  }
  if (own == nullptr && book->stop && !book->runs.empty()) {
    waits_for = fmt::format("the job is being stopped ({}), so this command is not started", book->stop->who);
    return false;
  }
  if (whole_.checkpoint)
    for (const BookedRun& run : others)
      if (run.checkpoint == whole_.checkpoint->path) {
        refused =
            Error{Errc::kBusy, fmt::format("checkpoint directory {} is in use by another dlrun of this job, {}.{} "
                                           "in {}; allowed: a --checkpoint of its own for each",
                                           run.checkpoint, whole_.job_id, run.number, run.dir)};
        return false;
      }
  return enter(book, own);
}

bool Try::enter(JobBook* book, BookedRun* own) {
  Choice choice;
  if (own != nullptr) {
    choice.number = own->number;
  } else {
    const auto past = past_runs(admission_->first_dir, applicant_.own_dir, *book, applicant_.guard);
    choice = choose_run(past, admission_->identity, applicant_.start);
    if (applicant_.own_dir) choice.number = 1;
  }
  admission_->run = choice.number;
  if (choice.completed) {
    write_passed(record::run_dir(admission_->first_dir, choice.number), *choice.completed, admission_->identity,
                 applicant_.start);
    admission_->completed = choice.completed->exit.value_or(0);
    admission_->plan = whole_;
    admission_->plan.job_dir = record::run_dir(admission_->first_dir, choice.number);
    admitted = true;
    return false;
  }
  std::vector<NodeShare> taken;
  for (const BookedRun& run : others) taken.insert(taken.end(), run.shares.begin(), run.shares.end());
  free = input_;
  free.run_number = choice.number;
  take_out(taken, &free.allocation);
  auto plan = plan::make_plan(free);
  if (!plan || !is_countable(*plan, taken)) {
    waits_for =
        fmt::format("waiting for GPUs of this job that other dlruns use ({}): {}", names_of(whole_.job_id, others),
                    plan ? "its nodes have different numbers of GPUs" : plan.error().text);
    return false;
  }
  BookedRun run;
  run.guard = applicant_.guard;
  run.number = choice.number;
  run.dir = plan->job_dir;
  if (plan->checkpoint) run.checkpoint = plan->checkpoint->path;
  run.shares = shares_of(*plan);
  if (own != nullptr)
    *own = std::move(run);
  else
    book->runs.push_back(std::move(run));
  admission_->plan = std::move(*plan);
  admitted = true;
  return true;
}

}  // namespace

Result<Admission> admit(const Applicant& applicant, plan::LaunchPlan plan, plan::PlanInput* input,
                        const std::function<void(const std::string&)>& say) {
  Admission admission;
  admission.book = BookFile(applicant.number);
  admission.identity = identify(plan, input->environment);
  admission.first_dir = plan.job_dir;
  const Patience patience;
  std::string said;
  for (;;) {
    Try attempt(applicant, plan, *input, &admission);
    const auto look = [&](JobBook* book) { return attempt.look(book); };
    if (!admission.book.change(applicant.start, look)) {
      JobBook nobody;
      look(&nobody);
    }
    if (!attempt.refused) return attempt.refused.error();
    if (attempt.admitted) {
      if (!admission.completed) *input = std::move(attempt.free);
      return admission;
    }
    if (term_came != 0 && attempt.others.empty()) return Error{Errc::kConflict, "ended by a signal while it waited"};
    if (attempt.waits_for != said) say(said = attempt.waits_for);
    std::this_thread::sleep_for(kLook);
  }
}

void leave(const Applicant& applicant, Admission* admission) {
  admission->book.change(applicant.start, [&](JobBook* book) {
    book->runs.erase(std::remove_if(book->runs.begin(), book->runs.end(),
                                    [&](const BookedRun& run) { return run.guard == applicant.guard; }),
                     book->runs.end());
    return true;
  });
}

std::string surrounding_learner() {
  const std::string rank = environment_value(env::kRank);
  if (rank.empty() || environment_value(env::kRunId).empty()) return {};
  pid_t pid = ::getppid();
  for (int i = 0; i < kMostAncestors && pid > 1; ++i) {
    const auto text = read_small_file(fmt::format("/proc/{}/stat", pid), 4096);
    const size_t open = text ? text->find('(') : std::string::npos;
    const size_t close = text ? text->rfind(')') : std::string::npos;
    if (open == std::string::npos || close == std::string::npos || close + 4 > text->size()) return {};
    if (text->substr(open + 1, close - open - 1) == "dl-agent") return rank;
    pid = static_cast<pid_t>(std::strtol(text->c_str() + close + 4, nullptr, 10));
  }
  return {};
}

}  // namespace dl::runs
