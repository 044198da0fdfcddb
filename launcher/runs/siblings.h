// SPDX-License-Identifier: Apache-2.0
// How one run of a job acts together with the job's other active runs: a stop reaches all of them, and the job is
// requeued once, when all are ready. No member function blocks: if another run holds the lock of the book, or the book
// cannot be written, the caller has to call again later.
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
  // own: the guard of this run, its key in the book. start: how often Slurm has requeued the job.
  Siblings(BookFile book, ProcessId own, int start) : book_(std::move(book)), own_(own), start_(start) {}

  // Returns each stop that another run asks for once. Call it often: it reads the book only if that has changed.
  std::optional<BookedStop> look();
  // Asks all other runs to stop. A stop already in the book is kept, except that a pause or an earlier deadline is
  // merged into it.
  // False: call it again.
  bool ask_all(const BookedStop& stop);

  // Tells the others that this run is ready to be requeued (hold: and held). False: call it again.
  bool arrive(bool hold, const std::string& excluded);
  struct Turn {
    enum class Kind {
      kWait,     // others still save, or one of them is asking Slurm
      kMine,     // this run asks Slurm now, then calls put_back()
      kDone,     // the job is back in the queue
      kRefused,  // Slurm has refused, see Turn::refused
    };
    Kind kind = Kind::kWait;
    bool hold = false;     // kMine: true if any run wants the job held
    std::string excluded;  // kMine: the excluded nodes of all runs
    std::string refused;
  };
  // What this run has to do next. at_once: the deadline has passed, so do not wait for other runs.
  Turn turn(bool at_once);
  // False: call it again.
  bool put_back(const Status& outcome);
  // For when the job is back in the queue: true if this run has to keep the job's begin time. That is the run that
  // asked Slurm, or another one if that has died or Slurm requeued the job by itself.
  bool keeps_begin_time();

 private:
  bool change(const std::function<bool(JobBook*)>& change);

  BookFile book_;
  ProcessId own_;
  int start_ = 0;
  std::optional<BookedStop> known_;
};

// What the run `own` has to do next, by the book alone. Pure except for `alive`.
Siblings::Turn turn_of(const JobBook& book, const ProcessId& own, bool at_once,
                       const std::function<bool(const ProcessId&)>& alive);
// Merges a stop into the book, as ask_all() does. Returns true if the book changed.
bool book_stop(const BookedStop& stop, JobBook* book);

// For a run that has not begun; blocks. Asks the others to stop, waits until all are ready, and then calls `ask` to
// requeue the job without the nodes that any run excludes, unless another run does so. kConflict, or the error of
// `ask`, if Slurm refuses.
Status put_back_together(Siblings siblings, const std::string& excluded, const std::string& why,
                         const std::function<Status(const std::string& excluded)>& ask);

constexpr const char* kTogetherCause = "together";
constexpr const char* kPauseCause = "pause";  // BookedStop::cause; stronger than the others

}  // namespace dl::runs
