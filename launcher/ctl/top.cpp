// SPDX-License-Identifier: Apache-2.0
// dlctl top [JOB...]: all jobs, live, on the whole terminal; or once.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/letters.h"
#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/terminal.h"
#include "launcher/ctl/text.h"
#include "launcher/ctl/top_child.h"
#include "launcher/ctl/top_look.h"
#include "launcher/top/frame.h"
#include "launcher/top/tty.h"

namespace dl::ctl {
namespace {

constexpr int kTickMs = 1000;  // the clock in the first line
constexpr int kSettleMs = 50;  // a sequence of a key does not take longer

// `dlctl pause` or `resume`, which a key has started, in a process of its own: it has its own rights and messages.
class Helper {
 public:
  Helper() = default;
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  ~Helper() {
    // It goes on: a pause that was asked for is carried out.
    if (pid_ > 0) ::waitpid(pid_, nullptr, WNOHANG);
  }
  int fd() const { return out_.get(); }  // -1: none runs

  Status start(const top::Action& action) {
    if (out_) return Error{Errc::kBusy, "the last pause or resume is not done yet"};
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error("pipe", errno);
    UniqueFd in(ends[0]);
    const UniqueFd to(ends[1]);
    SpawnOptions options;
    options.argv = {"/proc/self/exe", "resume", "--", action.id};
    if (action.kind == top::Action::kPause)
      options.argv = {"/proc/self/exe", "pause", "--no-wait", "--reason", "asked by dlctl top", "--", action.id};
    options.stdout_fd = options.stderr_fd = to.get();
    options.new_process_group = true;
    DL_TRY_ASSIGN(pid_, spawn_process(options));
    ::fcntl(in.get(), F_SETFL, O_NONBLOCK);
    out_ = std::move(in);
    said_.clear();
    return {};
  }

  // What it has said, in one line, if it has ended.
  std::optional<std::string> answer() {
    constexpr size_t kMost = 4096;
    char buffer[4096];
    for (;;) {
      const ssize_t n = ::read(out_.get(), buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return std::nullopt;
      if (n <= 0) break;
      if (said_.size() < kMost) said_.append(buffer, static_cast<size_t>(n));
    }
    out_.reset();
    end_child(std::exchange(pid_, -1), std::chrono::milliseconds(1000));
    for (char& c : said_)
      if (c == '\n') c = ' ';
    return std::string(trim(said_));
  }

 private:
  UniqueFd out_;
  pid_t pid_ = -1;
  std::string said_;
};

class Live {
 public:
  Live(LookChild child, const TopOptions& options) : child_(std::move(child)), colour_(standard_output().colour) {
    state_.all_users = options.all_users;
    state_.named = !options.jobs.empty();
    state_.by = top::column_of(options.sort).value_or(top::Column::kState);
    ascii_ = !locale_is_utf8();
  }

  // Returns the signal that ended it; 0: the user quits.
  Result<int> run() {
    DL_TRY_ASSIGN(const std::unique_ptr<top::Tty> tty, top::Tty::open());
    for (;;) {
      const int gone = draw(tty.get());
      if (gone != 0) return gone;
      std::vector<int> fds = {child_.fd()};
      if (helper_.fd() >= 0) fds.push_back(helper_.fd());
      top::Wake wake = tty->wait(fds, keys_.unsettled() ? kSettleMs : kTickMs);
      if (wake.ending != 0) return wake.ending;
      whole_ = whole_ || wake.resized || wake.shown_anew;
      for (const int fd : wake.ready) {
        if (fd == child_.fd()) {
          DL_TRY(take_look());
        } else if (const auto said = helper_.answer()) {
          state_.message = *said;
          child_.tell(state_.opened);  // looks at once
        }
      }
      const auto presses = wake.keys.empty() && wake.ready.empty() ? keys_.settle() : keys_.feed(wake.keys);
      for (const top::Press& one : presses)
        if (act(top::press(one, &state_))) return 0;
    }
  }

 private:
  // Returns the signal that ends top, if the terminal is gone.
  int draw(top::Tty* tty) {
    const top::Tty::Size size = top::Tty::size();
    top::Frame frame = top::compose(&state_, {size.columns, size.rows, ascii_, now_ms()});
    if (frame.columns != shown_.columns || frame.rows != shown_.rows) whole_ = true;
    const top::Tty::Written written = tty->write(top::drawing(shown_, frame, colour_, whole_));
    whole_ = written != top::Tty::Written::kAll;
    shown_ = std::move(frame);
    return written == top::Tty::Written::kGone ? SIGHUP : 0;
  }

  Status take_look() {
    DL_TRY_ASSIGN(const std::string line, child_.take());
    if (line.empty()) return {};
    DL_TRY_ASSIGN(top::Snapshot snapshot, top::snapshot_of(line));
    top::take(std::move(snapshot), &state_);
    return {};
  }

  // True: the user quits.
  bool act(const top::Action& action) {
    switch (action.kind) {
      case top::Action::kQuit:
        return true;
      case top::Action::kOpen:
      case top::Action::kClose:
        child_.tell(action.id);
        break;
      case top::Action::kPause:
      case top::Action::kResume:
        if (Status started = helper_.start(action); !started) state_.message = started.error().text;
        break;
      case top::Action::kNone:
        break;
    }
    return false;
  }

  LookChild child_;
  Helper helper_;
  top::State state_;
  top::KeyReader keys_;
  top::Frame shown_;
  bool colour_, ascii_ = false, whole_ = true;
};

Status print_once(TopLook look, const TopOptions& options) {
  top::State state;
  state.all_users = options.all_users;
  state.named = !options.jobs.empty();
  state.by = top::column_of(options.sort).value_or(top::Column::kState);
  top::take(look.look(""), &state);
  if (!state.snapshot.problem.empty()) return Error{Errc::kIo, printable(state.snapshot.problem, 300)};
  if (state.snapshot.rows.empty()) {
    std::puts(top::none_text(state).c_str());
    return {};
  }
  std::fputs(top::list_text(state, now_ms()).c_str(), stdout);
  return {};
}

Status run(const TopOptions& options) {
  if (!top::column_of(options.sort))
    return Error{Errc::kInvalid, "--sort '" + printable(options.sort) + "'; allowed: " + top::column_words()};
  DL_TRY_ASSIGN(TopLook look, TopLook::make(options));
  if (options.once || !top::can_draw()) return print_once(std::move(look), options);
  DL_TRY_ASSIGN(LookChild child,
                LookChild::start([&look](const std::string& opened) { return top::line_of(look.look(opened)); }));
  DL_TRY_ASSIGN(const int signal, Live(std::move(child), options).run());
  if (signal != 0) top::end_by(signal);
  return {};
}

}  // namespace

Run add_top(CommandLine* line) {
  auto options = std::make_shared<TopOptions>();
  line->argument("JOB", &options->jobs, "only these: job ids, or directories of runs without Slurm");
  line->flag("--all", &options->all_users, "the jobs of all users");
  line->flag("-b,--batch", &options->once, "print once, and end; as where there is no terminal");
  line->option("--sort", &options->sort, "the column to sort by: job, name, state, step, loss, left, ...")
      .form("COLUMN")
      .shows_default();
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
