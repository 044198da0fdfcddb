// SPDX-License-Identifier: Apache-2.0
#include "launcher/runs/siblings.h"

#include <algorithm>

namespace dl::runs {
namespace {

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
  // Two changes within one tick of the kernel's clock have one time.
  constexpr int kLookAnyhow = 20;
  if (!book_.has_changed() && ++unchanged_ < kLookAnyhow) return std::nullopt;
  unchanged_ = 0;
  std::optional<BookedStop> found;
  book_.change(start_, [&](JobBook* book) {
    if (book->stop && !(known_ && same(*known_, *book->stop))) known_ = found = book->stop;
    return false;
  });
  return found;
}

void Siblings::ask_all(const BookedStop& stop) {
  book_.change(start_, [&](JobBook* book) {
    const bool changed = book_stop(stop, book);
    known_ = book->stop;
    return changed;
  });
}

void Siblings::arrive(bool hold, const std::string& excluded) {
  book_.change(start_, [&](JobBook* book) {
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
  const bool there = book_.change(start_, [&](JobBook* book) {
    turn = turn_of(*book, own_, at_once, is_alive);
    if (turn.kind != Turn::Kind::kMine) return false;
    book->putting_back = own_;
    return true;
  });
  if (!there) turn.kind = Turn::Kind::kMine;
  return turn;
}

void Siblings::put_back(const Status& outcome) {
  book_.change(start_, [&](JobBook* book) {
    book->back = outcome.has_value();
    if (!outcome) book->refused = outcome.error().text;
    return true;
  });
}

}  // namespace dl::runs
