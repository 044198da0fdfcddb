// SPDX-License-Identifier: Apache-2.0
// Keeps scaling.json up to date: reads once what earlier attempts of the job and earlier jobs of the same name
// measured, and adds what this run measures. Files are read and written on another thread, since the job directory may
// lie on a slow file system. Used from the loop's thread alone.
#pragma once

#include <uv.h>

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/record/job_dir.h"
#include "launcher/record/scaling_record.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/blocking_calls.h"

namespace dl::supervise {

class ScalingKeeper {
 public:
  explicit ScalingKeeper(uv_loop_t* loop) : calls_(loop) {}

  // To be called about each second while learners train, and once more with `last` when they have ended. Writes each
  // 15 s, and at the last call. `record`: of this run, without measurements (scaling_record_of()). `began_ms`: when the
  // attempt began, by the same clock as now_ms.
  void look(const record::JobDir& dir, record::ScalingRecord record, const std::vector<Learner>& learners,
            int64_t now_ms, int64_t began_ms, bool last);
  bool idle() const { return calls_.idle(); }
  // What dlpolicyd is to know (common/scaling/scale_hint.h): empty before anything was measured, and of a job that is
  // not elastic.
  const std::string& hint() const { return hint_; }

 private:
  BlockingCalls calls_;
  bool asked_ = false, known_ = false;  // reading earlier measurements has begun; has ended
  int64_t written_ms_ = 0;
  int64_t attempt_ms_ = -1;  // the attempt of which restart_s_ is being measured
  int64_t restart_s_ = -1;   // from the beginning of the newest attempt until its first train step
  std::string hint_;
  std::vector<scaling::Measured> measured_;  // at this size and others
};

}  // namespace dl::supervise
