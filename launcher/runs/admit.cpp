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
#include "launcher/runs/past_runs.h"

namespace dl::runs {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 100ms;
constexpr auto kPatience = 5s;       // for the lock of the book, before anything runs
constexpr auto kPatienceLater = 1s;  // the same in the event loop, where agents wait for answers
constexpr int kMostReads = 20;       // of events that change all the time
constexpr int kLookAnyhow = 20;      // after so many waits, a book that has not changed is read anyway
constexpr int kMostAncestors = 64;

volatile sig_atomic_t term_came = 0;

// Keeps signals from ending a run that waits to be admitted. Such a run has nothing to save, but if it ended, the batch
// script might end, too, and with it all other runs.
class Patience {
 public:
  Patience() {
    term_came = 0;
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

// Records that this start passed over a completed run, so that the next start of the script counts it.
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

std::vector<NodeShare> shares_of_all(const std::vector<BookedRun>& runs) {
  std::vector<NodeShare> taken;
  for (const BookedRun& run : runs) taken.insert(taken.end(), run.shares.begin(), run.shares.end());
  return taken;
}

// Plans with what other runs leave of the allocation; *free is the input of that plan.
Result<plan::LaunchPlan> plan_beside(const std::vector<BookedRun>& others, const plan::PlanInput& whole,
                                     const plan::LaunchPlan& alone, plan::PlanInput* free) {
  *free = whole;
  const std::vector<NodeShare> taken = shares_of_all(others);
  take_out(taken, &free->allocation);
  DL_TRY_ASSIGN(plan::LaunchPlan plan, plan::make_plan(*free));
  if (std::string why = obstacle(plan, alone, taken); !why.empty()) return Error{Errc::kConflict, std::move(why)};
  return plan;
}

// One try to be admitted, while the book is locked.
class Try {
 public:
  Try(const Applicant& applicant, const plan::LaunchPlan& alone, const PastRuns& past, Admission* admission)
      : applicant_(applicant), alone_(alone), past_(past), admission_(admission) {}

  // Returns whether it has changed the book.
  bool look(JobBook* book);

  bool admitted = false;
  Status refused;
  std::string waits_for;       // neither admitted nor refused; empty: the events of an earlier run have changed
  bool put_back = false;       // Slurm has requeued the job
  bool believes_past = false;  // do not read the events again, even if they have changed
  std::vector<BookedRun> others;
  plan::PlanInput free;  // if admitted: what is left for this run

 private:
  bool enter(JobBook* book, BookedRun* own);

  const Applicant& applicant_;
  const plan::LaunchPlan& alone_;
  const PastRuns& past_;
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
  put_back = book->back;
  if (own == nullptr && book->stop && !book->runs.empty()) {
    waits_for = fmt::format("the job is being stopped ({}), so this command is not started", book->stop->who);
    return false;
  }
  if (alone_.checkpoint)
    for (const BookedRun& run : others)
      if (run.checkpoint == alone_.checkpoint->path) {
        refused =
            Error{Errc::kBusy, fmt::format("checkpoint directory {} is in use by another dlrun of this job, {}.{} "
                                           "in {}; allowed: a --checkpoint of its own for each",
                                           run.checkpoint, alone_.job_id, run.number, run.dir)};
        return false;
      }
  return enter(book, own);
}

bool Try::enter(JobBook* book, BookedRun* own) {
  Choice choice;
  if (own != nullptr) {
    choice.number = own->number;
  } else {
    if (!believes_past && !past_.is_current(*book, applicant_.guard)) return false;
    choice = choose_run(past_.with(*book, applicant_.guard), admission_->identity, applicant_.start);
    if (applicant_.own_dir) choice.number = 1;
  }
  admission_->run = choice.number;
  admission_->beside = !others.empty() && choice.number > 1;
  admission_->whole.run_number = choice.number;
  BookedRun run;
  run.guard = applicant_.guard;
  run.number = choice.number;
  if (choice.completed) {
    // The run stays in the book until its passing over is recorded. Meanwhile the same command, called at the same
    // time, counts as another run.
    admission_->completed = choice.completed;
    admission_->plan = alone_;
    admission_->plan.job_dir = run.dir = record::run_dir(admission_->first_dir, choice.number);
  } else {
    auto plan = plan_beside(others, admission_->whole, alone_, &free);
    if (!plan) {
      waits_for = fmt::format("waiting for GPUs of this job that other dlruns use ({}): {}",
                              names_of(alone_.job_id, others), plan.error().text);
      return false;
    }
    run.dir = plan->job_dir;
    if (plan->checkpoint) run.checkpoint = plan->checkpoint->path;
    run.shares = shares_of(*plan);
    admission_->plan = std::move(*plan);
  }
  if (own != nullptr)
    *own = std::move(run);
  else
    book->runs.push_back(std::move(run));
  admitted = true;
  return true;
}

// This run's entry in the book; nullptr if it runs alone, without a book.
BookedRun* own_entry(const Applicant& applicant, JobBook* book) {
  const auto found = std::find_if(book->runs.begin(), book->runs.end(),
                                  [&](const BookedRun& run) { return run.guard == applicant.guard; });
  return found == book->runs.end() ? nullptr : &*found;
}

}  // namespace

Result<Admission> admit(const Applicant& applicant, plan::LaunchPlan plan, plan::PlanInput* input,
                        const std::function<void(const std::string&)>& say) {
  using Outcome = BookFile::Outcome;
  Admission admission;
  admission.book = BookFile(applicant.number);
  admission.identity = identify(plan, input->environment);
  admission.first_dir = plan.job_dir;
  admission.whole = *input;
  PastRuns past(admission.first_dir, applicant.own_dir);
  const Patience patience;
  std::string said;
  bool put_back = false;
  for (int stale = 0;;) {
    past.read();
    Try attempt(applicant, plan, past, &admission);
    attempt.believes_past = stale >= kMostReads;
    const bool told = term_came != 0 || put_back;
    const auto look = [&](JobBook* book) {
      if (!told) return attempt.look(book);
      attempt.waits_for =
          "dlrun was told to end, so this command is not started; waiting for the other dlruns of the job to end";
      if (book->runs.empty())
        attempt.refused =
            Error{Errc::kConflict, "this command was told to end while it waited for its turn, and was not started"};
      return false;
    };
    const Outcome outcome = admission.book.change(applicant.start, kPatience, look);
    if (outcome == Outcome::kBusy) continue;
    if (outcome == Outcome::kNoBook) {
      JobBook nobody;
      look(&nobody);
    }
    if (!attempt.refused) return attempt.refused.error();
    put_back = put_back || attempt.put_back;
    if (attempt.admitted && outcome == Outcome::kNotWritten && !attempt.others.empty()) {
      attempt.admitted = false;
      attempt.waits_for =
          "waiting until the list of the job's dlruns can be written: /dev/shm of this node is full; remove files "
          "there";
    }
    if (attempt.admitted) {
      if (admission.completed) {
        write_passed(admission.plan.job_dir, *admission.completed, admission.identity, applicant.start);
        leave(applicant, &admission);
      } else {
        *input = std::move(attempt.free);
      }
      return admission;
    }
    if (attempt.waits_for.empty()) {
      ++stale;  // an event log is being written by somebody who is not in the book, as another job may
      continue;
    }
    if (attempt.waits_for != said) say(said = attempt.waits_for);
    for (int looks = 0; looks < kLookAnyhow && (term_came != 0) == told && !admission.book.has_changed(); ++looks)
      std::this_thread::sleep_for(kLook);
  }
}

Result<plan::LaunchPlan> plan_without(const std::vector<std::string>& nodes, const plan::LaunchPlan& now,
                                      const Applicant& applicant, Admission* admission, plan::PlanInput* input) {
  using Outcome = BookFile::Outcome;
  DL_TRY(plan::leave_out(nodes, now, &admission->whole));
  DL_TRY_ASSIGN(const plan::LaunchPlan alone, plan::make_plan(admission->whole));
  Result<plan::LaunchPlan> plan =
      Error{Errc::kBusy, "another dlrun of the job keeps the list of the job's dlruns locked"};
  const auto look = [&](JobBook* book) {
    std::vector<BookedRun> others;
    for (const BookedRun& run : book->runs)
      if (!(run.guard == applicant.guard)) others.push_back(run);
    plan = plan_beside(others, admission->whole, alone, input);
    BookedRun* own = own_entry(applicant, book);
    if (!plan || own == nullptr) return false;
    own->shares = both(shares_of(*plan), own->shares);
    return true;
  };
  const Outcome outcome = admission->book.change(applicant.start, kPatienceLater, look);
  if (outcome == Outcome::kNoBook) {
    JobBook nobody;
    look(&nobody);
  } else if (outcome == Outcome::kNotWritten) {
    return Error{Errc::kIo,
                 "the list of the job's dlruns cannot be written: /dev/shm of this node is full; remove files there"};
  }
  return plan;
}

void settle(const plan::LaunchPlan& plan, const Applicant& applicant, Admission* admission) {
  admission->book.change(applicant.start, kPatienceLater, [&](JobBook* book) {
    BookedRun* own = own_entry(applicant, book);
    if (own == nullptr) return false;
    own->shares = shares_of(plan);
    return true;
  });
}

void leave(const Applicant& applicant, Admission* admission) {
  admission->book.change(applicant.start, kPatience, [&](JobBook* book) {
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
