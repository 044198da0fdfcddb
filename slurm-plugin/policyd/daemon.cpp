// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/daemon.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <optional>

#include "common/base/atomic_file.h"
#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policy/site_state.h"
#include "slurm-plugin/policyd/dropping.h"
#include "slurm-plugin/policyd/job_series.h"
#include "slurm-plugin/policyd/metrics.h"
#include "slurm-plugin/policyd/notify.h"
#include "slurm-plugin/policyd/report.h"

namespace dl::policyd {
namespace {

constexpr size_t kMaxConfig = 1 << 20;  // at most this much of dl.toml is read
constexpr int64_t kSaveEveryS = 60;
constexpr int64_t kHistoryEveryS = 300;
constexpr int64_t kJobSeriesEveryS = 10;  // Prometheus seldom looks more often, and there may be thousands
// How long one round may spend on changes to waiting jobs. Each change is a message to slurmctld, so all changes after
// the first look at a long queue would delay a claim. The next round follows at once and continues with the rest.
constexpr std::chrono::milliseconds kOrdersWithin{800};

// The length of the longest gate that these actions set or renew.
int64_t longest_gate_s(const std::vector<Action>& actions, int64_t now_s) {
  int64_t gate_s = policy::kGateS;
  for (const Action& action : actions) gate_s = std::max(gate_s, action.update.begin_s.value_or(0) - now_s);
  return std::min(gate_s, policy::kLongestGateS);
}

// Waits for SIGHUP, which is blocked everywhere else. True if it came.
bool hangup_within(std::chrono::milliseconds wait) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  const timespec limit = {static_cast<time_t>(wait.count() / 1000), static_cast<long>(wait.count() % 1000) * 1'000'000};
  return ::sigtimedwait(&set, nullptr, &limit) == SIGHUP;
}

// sealed: set if Slurm takes no change of the job (sealed_jobs.h).
Status carry_out(const Action& action, bool* sealed) {
  if (!action.update.empty()) {
    Status made = observe::update_job(action.job, action.update);
    *sealed = !made && made.error().code == Errc::kUnsupported;
    if (!made && !(*sealed && works_without_change(action.kind))) return made;
  }
  if (action.signal) DL_TRY(observe::signal_steps(action.job, SIGUSR2));
  if (action.requeue) DL_TRY(observe::requeue(action.job));
  if (action.end) DL_TRY(observe::end_job(action.job));
  // Only root may write into a job's output. If this fails, dlctl can still read the same from the job's label.
  if (!action.notice.empty()) (void)observe::tell_job(action.slurm_id, "dl: " + action.notice);
  return {};
}

}  // namespace

// An earlier daemon may have set gates of any length, so the longest is assumed.
Daemon::Daemon(DaemonOptions options)
    : options_(std::move(options)), gate_s_(policy::kLongestGateS), gated_s_(std::time(nullptr)) {}

Status Daemon::configure() {
  auto text = read_small_file(options_.config, kMaxConfig);
  DL_TRY_ASSIGN(SiteConfig site, text ? parse_site_config(*text, options_.config) : load_site_config(options_.config));
  policy::ClusterState state = policy::state_of(site);
  DL_TRY(policy::check(state));
  site_ = std::move(site);
  site_state_ = std::move(state);
  text_ = text ? *std::move(text) : std::string();
  seen_mark_.clear();
  configured_ = true;
  if (site_.tenants.empty())
    log(Level::kWarning, fmt::format("{} declares no tenants: nothing to do until it does", options_.config));
  return {};
}

Status Daemon::run() {
  if (!options_.state_file.empty()) {
    if (Status loaded = use_.load(options_.state_file); !loaded)
      log(Level::kWarning,
          fmt::format("past use cannot be read, and is counted anew from now on: {}", loaded.error().text));
  }
  if (!options_.history_file.empty()) {
    auto history = observe::read_history(options_.history_file, std::time(nullptr));
    if (history)
      history_ = observe::History(std::move(history->spans));
    else if (history.error().code != Errc::kNotFound)
      log(Level::kWarning,
          fmt::format("the history cannot be read, and begins anew from now on: {}", history.error().text));
  }
  if (options_.once) return round();
  log(Level::kNotice, fmt::format("started: {} tenants from {}{}", site_.tenants.size(), options_.config,
                                  options_.dry_run ? ", dry run: nothing is changed" : ""));
  notify_systemd("READY=1");
  for (;;) {
    const auto began = std::chrono::steady_clock::now();
    if (Status done = round(); !done) {
      if (done.error().code == Errc::kUnsupported) return done;
      unreachable_.say(Level::kWarning, done.error().text + "; trying again", std::time(nullptr));
    }
    totals_.round_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (!hangup_within(orders_left_ ? std::chrono::milliseconds(0) : look_pace_.pause(options_.interval))) continue;
    if (Status configured = configure(); !configured) {
      log(Level::kError, fmt::format("the old configuration is kept: {}", configured.error().text));
    } else {
      log(Level::kNotice, fmt::format("read {} again: {} tenants", options_.config, site_.tenants.size()));
    }
  }
}

Status Daemon::round() {
  orders_left_ = false;
  if (!checked_) {
    DL_TRY_ASSIGN(kill_wait_s_, observe::check_controller());
  }
  checked_ = true;
  const auto began = std::chrono::steady_clock::now();
  DL_TRY_ASSIGN(const observe::Records* records, observer_.load());
  const std::optional<observe::Records> with_requests = sealed_.with_requests(*records);
  if (with_requests) records = &*with_requests;
  look_pace_.took(std::chrono::steady_clock::now() - began);
  unreachable_.over("slurmctld answers again");
  if (site_.tenants.empty()) return {};
  observe::ViewOptions view_options;
  view_options.min_run_s = site_.quota.min_run.count();
  view_options.grace_s = site_.quota.grace.count();
  view_options.lend_idle = site_.idle.lend;
  view_options.gate_s = gate_s_;
  view_options.chosen_sizes = site_.elastic.optimise;
  view_options.passed_over = stuck_.passed_over(records->now_s);
  observe::ClusterView view = observe::view_cluster(site_state_, *records, view_options);
  if (Status sound = policy::check(view.state); !sound) {
    unsound_.say(Level::kError, "Slurm's numbers contradict one another: " + sound.error().text, records->now_s);
    return options_.once ? sound : Status{};
  }
  unsound_.over("Slurm's numbers fit together again");
  use_.update(&view.state);
  checkpoints_.update(*records, &view);
  const NewSizes sizes = decide(*records, &view);
  const policy::Decision& decision = sizes.decision;
  stuck_.update(view, decision);
  const policy::Grace grace{view_options.grace_s, kill_wait_s_};
  std::vector<Action> actions = needed_actions(view, *records, decision, grace, sizes.resizes, sizes.growths);
  const SiteElastic& elastic = site_.elastic;
  put_first(drop_actions(view, *records, decision,
                         elastic.drop ? std::optional<int64_t>(elastic.drop_after.count()) : std::nullopt),
            &actions);
  sealed_.leave_out_changes(&actions, records->now_s);
  // Longer gates that were set earlier still stand for a while when fewer jobs wait.
  gate_s_ =
      std::max(longest_gate_s(actions, records->now_s), gate_s_ - std::max<int64_t>(0, records->now_s - gated_s_));
  gated_s_ = records->now_s;
  if (options_.dry_run) {
    if (options_.once || !actions.empty())
      std::fputs((options_.json ? as_json(actions) : as_text(actions)).c_str(), stdout);
    std::fflush(stdout);
    return {};
  }
  tell_uncharged(view, *records);
  act(actions, view.jobs.size(), records->now_s);
  after_round(view, *records, decision);
  return {};
}

// Sizes are chosen so seldom that it costs at most a twentieth of a core.
NewSizes Daemon::decide(const observe::Records& records, observe::ClusterView* view) {
  const auto began = std::chrono::steady_clock::now();
  if (!site_.elastic.optimise || began < sizes_next_) return {policy::decide(&view->state), {}, {}};
  NewSizes sizes = resizing_.decide(records, view, site_.elastic.interval.count(), site_.elastic.in_place);
  const auto ended = std::chrono::steady_clock::now();
  sizes_next_ = ended + 20 * (ended - began);
  return sizes;
}

void Daemon::act(const std::vector<Action>& actions, size_t jobs, int64_t now_s) {
  std::map<int64_t, Complaint> failed;
  const auto began = std::chrono::steady_clock::now();
  bool all_made = true;
  gate_pace_.begin(began, jobs, look_pace_.pause(options_.interval));
  totals_.gates_later = totals_.changes_late = 0;
  bool answers = true;  // slurmctld does
  for (const Action& action : actions) {
    const bool late = !answers || std::chrono::steady_clock::now() > began + kOrdersWithin;
    // The next rounds go on with these; the next one does not come sooner for them.
    if (!options_.once && action.can_wait) {
      if (late || !gate_pace_.take()) {
        ++totals_.gates_later;
        continue;
      }
    } else if (!answers || (late && action.kind == ActionKind::kOrder)) {
      ++totals_.changes_late;
      orders_left_ = true;
      continue;
    }
    const auto asked = std::chrono::steady_clock::now();
    bool sealed = false;
    const Status done = carry_out(action, &sealed);
    if (sealed && sealed_.refused(action, now_s))
      log(Level::kWarning,
          fmt::format(
              "job {}: slurmctld takes no change of it, as of a job that gave a node back (Slurm before 24.11 without "
              "slurmdbd); what it is asked is kept here, not in its label",
              policy::job_name(action.job)));
    if (done) {
      if (!sealed && !action.update.empty()) sealed_.made(action);
      if (action.can_wait) gate_pace_.took(std::chrono::steady_clock::now() - asked);
      count_action(action.kind, &totals_);
      log(action.kind == ActionKind::kOrder ? Level::kDebug : Level::kNotice, describe(action));
      continue;
    }
    count_failure(done.error().code, &totals_);
    // A job may have ended or started between the round's look at it and this change; such a failure is no reason for a
    // warning.
    Complaint& complaint = failed[action.job] = failed_[action.job];
    const bool passed = done.error().code == Errc::kConflict || done.error().code == Errc::kNotFound;
    complaint.say(passed ? Level::kDebug : Level::kWarning,
                  fmt::format("{}: failed: {}", describe(action), done.error().text), now_s);
    all_made = all_made && passed;
    answers = done.error().code != Errc::kBusy;
  }
  // If slurmctld refused a change, the next round does not follow at once but after the usual pause.
  orders_left_ = orders_left_ && all_made;
  failed_ = std::move(failed);
}

// Logs each running job of an undeclared tenant once.
void Daemon::tell_uncharged(const observe::ClusterView& view, const observe::Records& records) {
  std::set<int64_t> now;
  for (const observe::Uncharged& job : view.uncharged) {
    const int64_t id = records.jobs[job.record].id;
    if (job.gpus == 0 || !now.insert(id).second || uncharged_.count(id) != 0) continue;
    log(Level::kWarning,
        fmt::format("job {} holds {} GPUs that nobody is charged for: its tenant '{}' is not in {} any "
                    "more; it runs on until it ends or is cancelled",
                    id, job.gpus, job.label.tenant, options_.config));
  }
  uncharged_ = std::move(now);
}

std::string Daemon::metrics(const observe::ClusterView& view, const observe::Records& records,
                            const policy::Decision& decision) {
  const int64_t now_s = view.state.now_s;
  counts_.update(view.state, records);
  const auto most = static_cast<size_t>(site_.metrics.max_jobs);
  const bool is_fresh = now_s >= job_series_s_ && now_s - job_series_s_ < kJobSeriesEveryS;
  if (most == 0) {
    job_series_.clear();
    job_series_s_ = 0;
  } else if (!is_fresh) {
    job_series_ = job_series_text(view, records, most);
    job_series_s_ = now_s;
  }
  return metrics_text(view, decision, totals_) + counts_.text() + tenant_jobs_text(view, records) + job_series_;
}

void Daemon::after_round(const observe::ClusterView& view, const observe::Records& records,
                         const policy::Decision& decision) {
  const int64_t now_s = view.state.now_s;
  if (!options_.metrics_file.empty()) {
    totals_.config_in_force = config_in_force();
    if (Status written = replace_file(options_.metrics_file, metrics(view, records, decision)); !written)
      no_metrics_.say(Level::kWarning, "metrics: " + written.error().text, now_s);
  }
  if (!options_.history_file.empty()) keep_history(view.state);
  if (options_.state_file.empty() || (now_s - saved_s_ < kSaveEveryS && !options_.once)) return;
  saved_s_ = now_s;
  if (Status saved = use_.save(options_.state_file); !saved)
    no_state_.say(Level::kWarning, "the record of use cannot be kept: " + saved.error().text, now_s);
}

// Whether dl.toml still has the text that was read. It does not matter whether a new text is valid: slurmctld reads the
// file again by itself, and may apply other quotas in either case. A file that was written again with the same text
// counts as unchanged.
bool Daemon::config_in_force() {
  struct stat info {};
  std::string mark = "-";
  if (::stat(options_.config.c_str(), &info) == 0)
    mark = fmt::format("{} {} {} {}.{} {}.{}", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                       info.st_mtim.tv_nsec, info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
  if (mark == seen_mark_) return seen_same_;
  seen_mark_ = std::move(mark);
  const auto text = read_small_file(options_.config, kMaxConfig);
  seen_same_ = text ? *text == text_ : text.error().code == Errc::kNotFound && text_.empty();
  return seen_same_;
}

void Daemon::keep_history(const policy::ClusterState& state) {
  history_.add(state.now_s, policy::quota_rows(state));
  // The history is saved at once after the start, so that there is something to see.
  if (state.now_s - history_saved_s_ < kHistoryEveryS && !options_.once) return;
  history_saved_s_ = state.now_s;
  std::vector<observe::TenantSpan> spans = history_.spans(state.now_s);
  if (Status saved = write_file_atomically(options_.history_file, observe::format_history(spans)); !saved)
    no_history_.say(Level::kWarning, "the history cannot be kept: " + saved.error().text, state.now_s);
  history_ = observe::History(std::move(spans));
}

}  // namespace dl::policyd
