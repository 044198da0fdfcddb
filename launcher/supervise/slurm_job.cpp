// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/slurm_job.h"

#include <utility>

#include "common/base/awake_clock.h"
#include "common/process/child_process.h"

namespace dl::supervise {

void SlurmJob::ask(std::function<void(const Answer&)> then) {
  if (id_.empty()) return then(std::nullopt);
  auto found = std::make_shared<Result<slurm_cli::JobInfo>>(Error{});
  begin_question();
  calls_.post([found, id = id_] { *found = slurm_cli::show_job(id); },
              [this, found, then = std::move(then)] {
                end_question();
                if (!*found) return then(std::nullopt);
                info_ = std::move(**found);
                heard_(*info_);
                then(info_);
              });
}

void SlurmJob::ask_kill_wait(std::function<void(int64_t)> then) {
  if (id_.empty() || std::exchange(kill_wait_asked_, true)) return;
  auto found = std::make_shared<int64_t>(0);
  begin_question();
  calls_.post([found] { *found = slurm_cli::kill_wait().count(); },
              [this, found, then = std::move(then)] {
                end_question();
                then(*found);
              });
}

void SlurmJob::begin_question() {
  if (asking_++ == 0) asked_since_ms_ = awake_ms();
}

void SlurmJob::end_question() {
  --asking_;
  asked_since_ms_ = awake_ms();
}

void SlurmJob::ask_version(std::function<void()> then) {
  auto found = std::make_shared<Result<slurm_cli::Version>>(Error{});
  calls_.post([found] { *found = slurm_cli::slurm_version(); },
              [this, found, then = std::move(then)] {
                version_ = *found ? **found : slurm_cli::Version{};
                then();
              });
}

void SlurmJob::put_back(bool hold, const std::string& excluded, std::function<void(const Status&)> then) {
  auto outcome = std::make_shared<Status>();
  std::string all = excluded;
  if (!all.empty() && info_ && !info_->excluded.empty()) all = info_->excluded + "," + all;
  constexpr int64_t kSlowMs = 1500;
  BlockingCalls& calls = asking_ > 0 && awake_ms() - asked_since_ms_ > kSlowMs ? urgent_ : calls_;
  calls.post(
      [outcome, hold, id = id_, all] { *outcome = slurm_cli::requeue(id, hold, slurm_cli::requeue_delay(), all); },
      [outcome, then = std::move(then)] { then(*outcome); });
}

void SlurmJob::hold() {
  calls_.post([id = id_] { ignore(slurm_cli::hold(id), "it then waits in the queue, not held"); }, {});
}

void SlurmJob::keep_begin_time(std::function<void()> then) {
  calls_.post(
      [id = id_] {
        ignore(slurm_cli::set_start_time(id, slurm_cli::kRequeueDelay), "the job then waits for Slurm's two minutes");
      },
      std::move(then), "start time");
}

void SlurmJob::set_comment(std::function<bool(const Send&)> write, std::function<void(bool)> then) {
  auto done = std::make_shared<bool>(false);
  calls_.post(
      [done, id = id_, write = std::move(write)] {
        *done = write([&id](const std::string& text) { return slurm_cli::set_comment(id, text).has_value(); });
      },
      [done, then = std::move(then)] { then(*done); }, "comment");
}

void SlurmJob::run_step(std::vector<std::string> argv, std::chrono::seconds limit, std::function<void()> then) {
  CommandOptions command;
  command.timeout = limit;
  calls_.post([argv = std::move(argv), command] { ignore(run_command(argv, command), "nothing more can be done"); },
              std::move(then));
}

void SlurmJob::release_nodes(const std::vector<std::string>& nodes, const std::string& folder,
                             std::function<void()> no_more_comments, std::function<void(const Status&)> then) {
  auto can_update = std::make_shared<bool>(true);
  calls_.post(
      [can_update] { *can_update = slurm_cli::can_update_after_release(); },
      [this, can_update, nodes, folder, no_more_comments = std::move(no_more_comments), then = std::move(then)] {
        // Slurm then accepts no update after the release, and each try would hold up the other calls for seconds. So
        // updates that are queued are sent before the release, and no more are made.
        if (!*can_update) no_more_comments();
        auto outcome = std::make_shared<Status>();
        calls_.post([outcome, nodes, id = id_, folder] { *outcome = slurm_cli::release_nodes(id, nodes, folder); },
                    [outcome, then] { then(*outcome); });
      });
}

}  // namespace dl::supervise
