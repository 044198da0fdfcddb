// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/status_watch.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/letters.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/ctl/text.h"
#include "launcher/ctl/top_child.h"
#include "launcher/top/cells.h"
#include "launcher/top/keys.h"
#include "launcher/top/screen.h"
#include "launcher/top/tty.h"

namespace dl::ctl {
namespace {

constexpr int kLookEveryMs = 2000, kSettleMs = 50, kAnyMs = 60'000;

std::string json_line(const WatchLook& look) {
  const Json json = {{"text", look.text}, {"ended", look.ended}};
  return json.dump();
}

// Without a terminal: the text, whenever a state has changed.
Status print_changes(const std::function<WatchLook()>& look) {
  std::string states;
  for (bool first = true;; first = false) {
    const WatchLook now = look();
    if (first || now.states != states) std::printf("%s%s", first ? "" : "\n", now.text.c_str());
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return {};  // main() says so
    if (now.ended) return {};
    states = now.states;
    ::poll(nullptr, 0, kLookEveryMs);
  }
}

class StatusScreen {
 public:
  explicit StatusScreen(LookChild child) : child_(std::move(child)), end_(locale_is_utf8() ? "…" : "~") {}

  // Returns the signal that ended it, or 0.
  Result<int> run(std::string* last) {
    DL_TRY_ASSIGN(const std::unique_ptr<top::Tty> tty, top::Tty::open());
    for (;;) {
      const top::Tty::Size size = top::Tty::size();
      top::Frame frame = compose(size.columns, size.rows);
      const auto written = tty->write(top::drawing(shown_, frame, false, whole_));
      if (written == top::Tty::Written::kGone) return SIGHUP;
      whole_ = written == top::Tty::Written::kPart;
      shown_ = std::move(frame);
      top::Wake wake = tty->wait({child_.fd()}, keys_.unsettled() ? kSettleMs : kAnyMs);
      if (wake.ending != 0) return wake.ending;
      whole_ = whole_ || wake.resized || wake.shown_anew;
      if (!wake.ready.empty()) {
        DL_TRY_ASSIGN(const bool ended, take());
        if (ended) break;
      }
      const auto presses = wake.keys.empty() && wake.ready.empty() ? keys_.settle() : keys_.feed(wake.keys);
      if (std::any_of(presses.begin(), presses.end(), [&](const top::Press& one) { return press(one); })) break;
    }
    *last = text_;
    return 0;
  }

 private:
  Result<bool> take() {
    DL_TRY_ASSIGN(const std::string line, child_.take());
    if (line.empty()) return false;
    const Json json = Json::parse(line);
    if (!json.is_object() || !json.contains("text")) return Error{Errc::kInternal, "a look at the jobs gave no answer"};
    text_ = json.at("text").text();
    return json.value("ended", false);
  }

  // Scrolls, or returns true: the user quits.
  bool press(const top::Press& one) {
    const size_t page = std::max(shown_.rows - 1, 1);
    if (one.key == top::Key::kEscape || (one.key == top::Key::kLetter && one.letter == 'q')) return true;
    if (one.key == top::Key::kUp && scroll_ > 0) --scroll_;
    if (one.key == top::Key::kDown) ++scroll_;
    if (one.key == top::Key::kPageDown) scroll_ += page;
    if (one.key == top::Key::kPageUp) scroll_ -= std::min(scroll_, page);
    if (one.key == top::Key::kHome) scroll_ = 0;
    return false;
  }

  top::Frame compose(int columns, int rows) {
    top::Frame frame{columns, rows, {}};
    const auto width = static_cast<size_t>(columns), body = static_cast<size_t>(std::max(rows - 1, 0));
    std::vector<std::string> lines = split(text_, '\n');
    if (!lines.empty() && lines.back().empty()) lines.pop_back();
    scroll_ = std::min(scroll_, lines.size() > body ? lines.size() - body : 0);
    for (size_t i = scroll_; i < std::min(lines.size(), scroll_ + body); ++i)
      frame.lines.push_back({{top::cut(top::harmless(lines[i], 10'000), width, end_), top::Style::kPlain}});
    while (frame.lines.size() < body) frame.lines.emplace_back();
    const std::string bottom = text_.empty() ? "looking at the jobs ..." : "q quit   up/down scroll";
    frame.lines.push_back({{top::cut(bottom, width, end_), top::Style::kDim}});
    return frame;
  }

  LookChild child_;
  const std::string end_;
  top::KeyReader keys_;
  top::Frame shown_;
  std::string text_;
  size_t scroll_ = 0;
  bool whole_ = true;
};

}  // namespace

Status watch_status(const std::function<WatchLook()>& look) {
  if (!top::can_draw()) return print_changes(look);
  DL_TRY_ASSIGN(LookChild child, LookChild::start([&look](const std::string&) { return json_line(look()); }));
  std::string last;
  DL_TRY_ASSIGN(const int signal, StatusScreen(std::move(child)).run(&last));
  std::fputs(last.c_str(), stdout);
  if (signal != 0) top::end_by(signal);
  return {};
}

}  // namespace dl::ctl
