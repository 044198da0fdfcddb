// SPDX-License-Identifier: Apache-2.0
// dlrun: parses the command line, makes the launch plan, then prints or runs it. See dlrun(1).
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>

#include "common/base/standard_files.h"
#include "common/base/this_process.h"
#include "common/contract/env_names.h"
#include "common/contract/exit_codes.h"
#include "launcher/guard/guard.h"
#include "launcher/options/node_side.h"
#include "launcher/options/run_input.h"
#include "launcher/options/run_options.h"
#include "launcher/options/terminal_relay.h"
#include "launcher/plan/print.h"
#include "launcher/preflight/replan.h"
#include "launcher/record/event_log.h"
#include "launcher/record/job_dir.h"
#include "launcher/record/job_lock.h"
#include "launcher/record/run_memory.h"
#include "launcher/runs/admit.h"
#include "launcher/submit/submit_command.h"
#include "launcher/supervise/once_more.h"
#include "launcher/supervise/supervisor.h"

namespace {

// The exit status of an earlier start of this job, if Slurm has started the job once more although it had ended.
std::optional<int> status_of_ended(const dl::plan::LaunchPlan& plan) {
  if (!plan.under_slurm || plan.slurm_restart_count == 0) return std::nullopt;
  const auto history = dl::record::read_events(dl::record::JobDir(plan.job_dir).events());
  if (!history) return std::nullopt;
  const auto end =
      dl::supervise::ended_before(history->events, dl::supervise::command_text(plan.command), plan.slurm_restart_count);
  if (!end) return std::nullopt;
  std::fprintf(stderr,
               "dlrun: this command ended in attempt %d (%s: %s); Slurm has put the job back once more because it was "
               "preempted before, and nothing is run again\n",
               end->attempt, dl::record::state_name(end->state), end->reason.c_str());
  return end->exit.value_or(0);
}

// Whether a dlrun that has died had accepted a stop or decided how the job ends. That is carried out first: it may have
// a deadline, and a job that has ended is not put back for a bad node.
bool end_is_due(const dl::guard::Predecessor& before, const dl::plan::LaunchPlan& plan) {
  if (!before.began) return false;
  const auto history = dl::record::read_events(dl::record::JobDir(plan.job_dir).events());
  if (!history) return false;
  const dl::record::RunMemory memory = dl::record::remembered(history->events);
  return memory.stop.has_value() || !memory.decided.empty();
}

// Locks the job directory. Another dlrun that holds the lock may be about to end: the job was requeued, or the user
// starts again at once.
dl::Result<dl::record::JobLock> lock_directory(const dl::plan::LaunchPlan& plan, unsigned mode) {
  constexpr std::chrono::seconds kPatience{5};
  const auto self = dl::record::this_process(plan.job_id, plan.under_slurm ? plan.slurm_restart_count : -1);
  DL_TRY(dl::record::JobDir(plan.job_dir).make(mode));
  return dl::record::JobLock::take(plan.job_dir, self, kPatience);
}

// This dlrun's part among the other dlruns of the job.
class OtherRuns {
 public:
  OtherRuns() = default;
  ~OtherRuns() {
    if (admission_) dl::runs::leave(applicant_, &*admission_);
  }
  OtherRuns(const OtherRuns&) = delete;
  OtherRuns& operator=(const OtherRuns&) = delete;

  // Reduces the plan to what the other runs leave. Returns an exit status if nothing is to be run.
  std::optional<int> make_way(const dl::RunCommand& run, dl::plan::PlanInput* input, dl::plan::LaunchPlan* plan) {
    const auto number = input->environment.find("SLURM_JOB_ID");
    if (number != input->environment.end()) applicant_.number = number->second;
    applicant_.start = plan->slurm_restart_count;
    applicant_.guard = dl::runs::process_of(::getppid());
    applicant_.own_dir = run.job_dir.has_value();
    auto admitted = dl::runs::admit(applicant_, *plan, input,
                                    [](const std::string& line) { std::fprintf(stderr, "dlrun: %s\n", line.c_str()); });
    if (!admitted) {
      std::fprintf(stderr, "dlrun: %s\n", admitted.error().text.c_str());
      return admitted.error().code == dl::Errc::kConflict ? 128 + SIGTERM : dl::kExitNoDirectory;
    }
    admission_ = std::move(*admitted);
    *plan = std::move(admission_->plan);
    if (!admission_->completed) return std::nullopt;
    std::fprintf(
        stderr,
        "dlrun: this command completed in an earlier start of job %s, and is not run again; its job directory: "
        "%s\n",
        plan->job_id.c_str(), plan->job_dir.c_str());
    return admission_->completed->exit.value_or(0);
  }

  dl::Result<dl::plan::LaunchPlan> plan_without(const std::vector<std::string>& nodes, const dl::plan::LaunchPlan& now,
                                                dl::plan::PlanInput* input) {
    return dl::runs::plan_without(nodes, now, applicant_, &*admission_, input);
  }
  // The nodes are a companion's, of which no other run knows.
  dl::Result<dl::plan::LaunchPlan> plan_with(const std::vector<dl::plan::Node>& nodes, const dl::plan::LaunchPlan& now,
                                             dl::plan::PlanInput* input) {
    DL_TRY_ASSIGN(dl::plan::LaunchPlan larger, dl::plan::make_plan_with(nodes, now, input));
    std::vector<dl::plan::Node>& whole = admission_->whole.allocation.nodes;
    whole.insert(whole.end(), nodes.begin(), nodes.end());
    return larger;
  }
  void settle(const dl::plan::LaunchPlan& plan) { dl::runs::settle(plan, applicant_, &*admission_); }
  dl::runs::Siblings siblings() const {
    return dl::runs::Siblings(admission_->book, applicant_.guard, applicant_.start);
  }

  void tell(dl::supervise::RunOptions* options) const {
    options->siblings = siblings();
    options->identity = admission_->identity.text();
    options->first_dir = applicant_.own_dir ? std::string() : admission_->first_dir;
    options->run = admission_->run;
    options->beside = admission_->beside;
  }

 private:
  dl::runs::Applicant applicant_;
  std::optional<dl::runs::Admission> admission_;
};

// How to plan again if nodes turn out to be bad; if the job may have other dlruns, with regard to them.
dl::preflight::OtherPlan other_plan(OtherRuns* others) {
  dl::preflight::OtherPlan other;
  if (others == nullptr) {
    other.without = dl::plan::make_plan_without;
    other.settle = [](const dl::plan::LaunchPlan&) {};
    return other;
  }
  other.without = [others](const auto& nodes, const auto& now, dl::plan::PlanInput* input) {
    return others->plan_without(nodes, now, input);
  };
  other.settle = [others](const auto& plan) { others->settle(plan); };
  other.put_back = [others](const std::string& excluded, const auto& ask) {
    return dl::runs::put_back_together(others->siblings(), excluded, "preflight: bad nodes", ask);
  };
  return other;
}

// The exit status of a dlrun that only prints: `status` if everything could be printed.
int printed(int status) {
  const dl::Status flushed = dl::flush_standard_output();
  if (flushed) return status;
  std::fprintf(stderr, "dlrun: %s\n", flushed.error().text.c_str());
  return dl::kExitNoDirectory;
}

// `link` leads to the guard; nullptr for a dry run.
int plan_and_run(const dl::RunCommand& run, const dl::guard::Predecessor& predecessor, dl::guard::Link* link) {
  if (!run.dry_run)
    if (const dl::Status checked = dl::check_node_side(); !checked) return dl::kExitUsage;  // it is put back, and told
  const auto settings = dl::read_site_settings(run);
  dl::Result<dl::GatheredInput> gathered = dl::Error{};
  if (settings)
    gathered = dl::gather_input(run, *settings, !predecessor.death.empty());
  else
    gathered = settings.error();
  dl::Result<dl::plan::LaunchPlan> plan = dl::Error{};
  if (gathered) {
    gathered->input.catalogue = &gathered->catalogue;
    gathered->input.debug = run.debug;
    plan = dl::plan::make_plan(gathered->input);
  }
  if (!gathered || !plan) {
    std::fprintf(stderr, "dlrun: %s\n", (gathered ? plan.error() : gathered.error()).text.c_str());
    return dl::kExitUsage;
  }
  if (run.dry_run) {
    const dl::plan::RunFacts facts;
    const auto& inherited = gathered->input.environment;
    std::string text = run.json ? plan_json(*plan, facts, inherited) : plan_text(*plan, facts, inherited);
    std::fputs(text.c_str(), stdout);
    return printed(0);
  }
  std::optional<OtherRuns> others;
  if (plan->under_slurm) {
    others.emplace();
    const auto status = others->make_way(run, &gathered->input, &*plan);
    if (status) return *status;
  }
  if (const auto status = status_of_ended(*plan)) return *status;
  const auto lock = lock_directory(*plan, settings->site.job_dir_mode);  // before anything is written there
  if (!lock) {
    const bool busy = lock.error().code == dl::Errc::kBusy;  // that error already names what is allowed
    std::fprintf(stderr, "dlrun: %s%s\n", lock.error().text.c_str(),
                 busy ? "" : "; allowed: --job-dir=PATH in a folder that you can write to");
    return dl::kExitNoDirectory;
  }
  if (!run.quiet)
    for (const auto* lines : {&gathered->notes, &plan->warnings})
      for (const std::string& line : *lines) std::fprintf(stderr, "dlrun: %s\n", line.c_str());
  if (const dl::Status there = dl::check_mpi_plugin(*plan, gathered->input.site.pmix); !there) {
    std::fprintf(stderr, "dlrun: %s\n", there.error().text.c_str());
    return dl::kExitUsage;
  }
  const dl::preflight::OtherPlan other = other_plan(others ? &*others : nullptr);
  if (!end_is_due(predecessor, *plan))
    if (const auto status = dl::preflight::check_nodes(other, &gathered->input, run.quiet, &*plan)) return *status;
  if (plan->under_slurm)
    dl::ignore(dl::record_settings(*settings, plan->job_dir), "whoever needs the directory next says what is wrong");
  if (!plan->container.image.empty())
    if (dl::Status copied = dl::image::copy_libraries(plan->job_dir); !copied)
      std::fprintf(
          stderr,
          "dlrun: %s: the libraries of slurm-dl were not made ready for the image, so learners use those that it has\n",
          copied.error().text.c_str());
  dl::supervise::RunOptions options;
  options.quiet = run.quiet;
  options.debug = run.debug;
  options.hang_ms = run.debug ? 0 : std::chrono::milliseconds(gathered->input.request.hang_timeout).count();
  // Without preflight checks the job is still as it was read. The checks may have taken minutes, in which it has
  // changed.
  if (gathered->input.request.preflight == dl::PreflightMode::kOff) options.job = std::move(gathered->job);
  options.predecessor = predecessor;
  if (others) others->tell(&options);
  if (plan->under_slurm) {
    options.script = dl::script_process();
    options.own_signal = dl::own_signal_of_job(options.script);
    options.passed_signal = dl::passed_signal(options.own_signal);
  }
  options.guard = link;
  options.agent_path = gathered->input.agent_path;
  options.plan_json = [&input = gathered->input](const auto& of, const auto& attempt) {
    return plan_json(of, attempt, input.environment);
  };
  options.without = [&other, &input = gathered->input](const auto& lost, const auto& now) {
    return other.without(lost, now, &input);
  };
  options.settle = other.settle;
  if (others)
    options.with = [&others, &input = gathered->input](const auto& nodes, const auto& now) {
      return others->plan_with(nodes, now, &input);
    };
  if (gathered->input.request.preflight != dl::PreflightMode::kOff) {
    // The input is copied, because another thread uses it.
    options.check = [input = gathered->input](const auto& next, const auto& suspects) {
      dl::preflight::CheckedAgain checked = dl::preflight::check_again(input, next, suspects);
      return dl::supervise::CheckedNodes{std::move(checked.bad), std::move(checked.lines)};
    };
  }
  dl::supervise::Supervisor supervisor(std::move(*plan), gathered->input.site, std::move(options));
  return supervisor.run();
}

}  // namespace

int main(int argc, char** argv) try {
  dl::open_closed_standard_files();
  dl::drop_given_variables();
  dl::ParsedArguments parsed = dl::parse_arguments(argc, argv);
  if (!parsed.command) return printed(parsed.exit_status);
  std::string note;
  if (!dl::submit::runs_here(*parsed.command, &note)) return printed(dl::submit::submit_command(*parsed.command));
  if (!note.empty() && !parsed.command->quiet) std::fprintf(stderr, "dlrun: %s\n", note.c_str());
  dl::RunCommand& run = *parsed.command;
  if (run.dry_run) return plan_and_run(run, {}, nullptr);
  if (const std::string rank = dl::runs::surrounding_learner(); !rank.empty()) {
    std::fprintf(stderr,
                 "dlrun: called in learner %s of another dlrun (%s), which is no place for a second one; allowed: the "
                 "program itself here, or a second dlrun in the batch script beside the first\n",
                 rank.c_str(), dl::environment_value(dl::env::kJobDir).c_str());
    return dl::kExitUsage;
  }
  if (run.debug) {
    if (const dl::Status relayed = dl::relay_terminal(); !relayed) {
      std::fprintf(stderr, "dlrun: --debug: %s\n", relayed.error().text.c_str());
      return dl::kExitUsage;
    }
  }
  run.local_id = dl::local_job_id();  // a dlrun that takes the place of a dead one has the same id
  return dl::guard::run_guarded([&run](const dl::guard::Predecessor& predecessor, dl::guard::Link* link) {
    return plan_and_run(run, predecessor, link);
  });
} catch (const std::exception& e) {
  std::fprintf(stderr, "dlrun: %s\n", e.what());
  return dl::kExitInternal;
}
