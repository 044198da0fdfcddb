// SPDX-License-Identifier: Apache-2.0
// The runs of a job that are at work together, as one of them sees the others: a stop reaches all, and the job is put
// back once, when all are ready. Nothing here blocks: where another run has the lock of the book at this moment, or the
// book cannot be written, the caller comes again.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "launcher/runs/job_book.h"

namespace dl::runs {

class Siblings {
 public:
  Siblings() = default;
  // own: the guard of this run, by which it stands in the book.
  Siblings(BookFile book, ProcessId own, int start) : book_(std::move(book)), own_(own), start_(start) {}

  // A stop that another run asks for, each once. To be called often: it looks at the book only where that has changed.
  std::optional<BookedStop> look();
  // Asks all others for it. What the book has already stays, but for a pause, and for an earlier deadline.
  // False: to be called again.
  bool ask_all(const BookedStop& stop);

  // This run is ready to go back into the queue. False: to be called again.
  bool arrive(bool hold, const std::string& excluded);
  struct Turn {
    enum class Kind {
      kWait,     // others save still, or one of them asks Slurm now
      kMine,     // this run asks Slurm, and tells what came of it
      kDone,     // the job is back in the queue
      kRefused,  // Slurm has refused
    };
    Kind kind = Kind::kWait;
    bool hold = false;     // kMine: as any of them wants it
    std::string excluded;  // kMine: of all
    std::string refused;
  };
  // at_once: the time is over, others are not waited for.
  Turn turn(bool at_once);
  // False: to be called again.
  bool put_back(const Status& outcome);
  // The job is back in the queue. Whether it is this run that keeps its begin time: the one that asked Slurm, or
  // another where that has died or Slurm did so by itself.
  bool keeps_begin_time();

 private:
  bool change(const std::function<bool(JobBook*)>& change);

  BookFile book_;
  ProcessId own_;
  int start_ = 0;
  std::optional<BookedStop> known_;
};

// What each run is to do, by the book alone. Pure but for `alive`.
Siblings::Turn turn_of(const JobBook& book, const ProcessId& own, bool at_once,
                       const std::function<bool(const ProcessId&)>& alive);
// Merges a stop into the book. Returns whether that changed it.
bool book_stop(const BookedStop& stop, JobBook* book);

// Before a run has begun, and blocks: asks the others to stop, waits until they are ready, and has `ask` put the job
// back without the nodes that any of them excludes, unless another one does so. An error is Slurm's refusal.
Status put_back_together(Siblings siblings, const std::string& excluded, const std::string& why,
                         const std::function<Status(const std::string& excluded)>& ask);

constexpr const char* kTogetherCause = "together";
constexpr const char* kPauseCause = "pause";  // BookedStop::cause; stronger than the others

}  // namespace dl::runs
