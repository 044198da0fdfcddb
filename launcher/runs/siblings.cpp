// SPDX-License-Identifier: Apache-2.0
#include "launcher/runs/siblings.h"

#include <chrono>
#include <thread>

namespace dl::runs {
namespace {

constexpr std::chrono::milliseconds kAtOnce{0}, kLook{20}, kMostToTell{5000};

bool same(const BookedStop& a, const BookedStop& b) {
  return a.cause == b.cause && a.deadline_ms == b.deadline_ms;
}

}  // namespace

bool book_stop(const BookedStop& stop, JobBook* book) {
  if (!book->stop) {
    book->stop = stop;
    return true;
  }
  BookedStop& known = *book->stop;
  bool changed = false;
  if (stop.cause == kPauseCause && known.cause != kPauseCause) {
    known.cause = stop.cause;
    known.who = stop.who;
    changed = true;
  }
  if (stop.deadline_ms != 0 && (known.deadline_ms == 0 || stop.deadline_ms < known.deadline_ms)) {
    known.deadline_ms = stop.deadline_ms;
    changed = true;
  }
  return changed;
}

Siblings::Turn turn_of(const JobBook& book, const ProcessId& own, bool at_once,
                       const std::function<bool(const ProcessId&)>& alive) {
  Siblings::Turn turn;
  using Kind = Siblings::Turn::Kind;
  turn.refused = book.refused;
  if (book.back || !book.refused.empty()) {
    turn.kind = book.back ? Kind::kDone : Kind::kRefused;
    return turn;
  }
  if (book.putting_back.pid != 0 && !(book.putting_back == own) && alive(book.putting_back)) return turn;
  for (const BookedRun& run : book.runs) {
    if (!run.arrived && !at_once) return turn;
    turn.hold = turn.hold || run.hold;
    if (!run.excluded.empty()) turn.excluded += (turn.excluded.empty() ? "" : ",") + run.excluded;
  }
  turn.kind = Kind::kMine;
  return turn;
}

std::optional<BookedStop> Siblings::look() {
  if (!book_.has_changed()) return std::nullopt;
  std::optional<BookedStop> found;
  const BookFile::Outcome outcome = book_.change(start_, kAtOnce, [&](JobBook* book) {
    if (book->stop && !(known_ && same(*known_, *book->stop))) known_ = found = book->stop;
    return false;
  });
  if (outcome == BookFile::Outcome::kBusy) book_.forget_seen();
  return found;
}

bool Siblings::change(const std::function<bool(JobBook*)>& change) {
  const BookFile::Outcome outcome = book_.change(start_, kAtOnce, change);
  return outcome == BookFile::Outcome::kDone || outcome == BookFile::Outcome::kNoBook;
}

bool Siblings::ask_all(const BookedStop& stop) {
  return change([&](JobBook* book) {
    const bool changed = book_stop(stop, book);
    known_ = book->stop;
    return changed;
  });
}

bool Siblings::arrive(bool hold, const std::string& excluded) {
  return change([&](JobBook* book) {
    for (BookedRun& run : book->runs) {
      if (!(run.guard == own_)) continue;
      run.arrived = true;
      run.hold = run.hold || hold;
      run.excluded = excluded;
    }
    return true;
  });
}

Siblings::Turn Siblings::turn(bool at_once) {
  Turn turn;
  const BookFile::Outcome outcome = book_.change(start_, kAtOnce, [&](JobBook* book) {
    turn = turn_of(*book, own_, at_once, is_alive);
    if (turn.kind != Turn::Kind::kMine) return false;
    book->putting_back = own_;
    return true;
  });
  if (outcome == BookFile::Outcome::kNoBook) turn.kind = Turn::Kind::kMine;
  // Without the note another run may ask as well, which does less harm than no run asking.
  if (outcome == BookFile::Outcome::kNotWritten && !at_once) turn.kind = Turn::Kind::kWait;
  return turn;
}

bool Siblings::put_back(const Status& outcome) {
  return change([&](JobBook* book) {
    book->back = outcome.has_value();
    if (!outcome) book->refused = outcome.error().text;
    return true;
  });
}

bool Siblings::keeps_begin_time() {
  bool mine = false;
  const BookFile::Outcome outcome = book_.change(start_, kAtOnce, [&](JobBook* book) {
    mine = book->putting_back == own_ || !is_alive(book->putting_back);
    if (!mine || (book->back && book->putting_back == own_)) return false;
    book->putting_back = own_;
    book->back = true;
    return true;
  });
  return mine || outcome == BookFile::Outcome::kNoBook;
}

Status put_back_together(Siblings siblings, const std::string& excluded, const std::string& why,
                         const std::function<Status(const std::string& excluded)>& ask) {
  const auto insist = [](const std::function<bool()>& step) {
    for (auto left = kMostToTell; !step() && left.count() > 0; left -= kLook) std::this_thread::sleep_for(kLook);
  };
  insist([&] { return siblings.ask_all({kTogetherCause, why, 0}) && siblings.arrive(false, excluded); });
  for (;; std::this_thread::sleep_for(kLook)) {
    const Siblings::Turn turn = siblings.turn(false);
    if (turn.kind == Siblings::Turn::Kind::kDone) return {};
    if (turn.kind == Siblings::Turn::Kind::kRefused) return Error{Errc::kConflict, turn.refused};
    if (turn.kind == Siblings::Turn::Kind::kWait) continue;
    Status outcome = ask(turn.excluded.empty() ? excluded : turn.excluded);
    insist([&] { return siblings.put_back(outcome); });
    return outcome;
  }
}

}  // namespace dl::runs
