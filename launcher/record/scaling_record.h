// SPDX-License-Identifier: Apache-2.0
// scaling.json in a job directory: how long train steps took at each size that the job ran at (common/scaling/model.h),
// and what is needed to ask the model about other sizes. Written by dlrun; dl-job-directory(5) describes it.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/batch_range.h"
#include "common/contract/request_values.h"
#include "common/scaling/model.h"

namespace dl::record {

struct ScalingRecord {
  std::string name, framework;  // of the job; jobs with both alike, of one user, are taken for the same training
  std::string gpu_type;         // may be empty
  int gpus_per_learner = 0;
  LearnerRange asked;
  std::string batch;  // as asked, canonical; empty: none
  double noise = -1;  // the gradient noise scale that the program reported last, in samples; negative: none
  scaling::Size now;  // what it runs at, or ran at last
  std::vector<scaling::Measured> measured;
};

constexpr int kScalingVersion = 1;
constexpr size_t kMostScalingBytes = 256 << 10;

std::string format_scaling(const ScalingRecord& record);
// kInvalid for anything that is not such a text, or of a later version. Measurements that are not sane are left out.
Result<ScalingRecord> parse_scaling(const std::string& text);
// kNotFound if there is no such file; else as parse_scaling(), and kIo.
Result<ScalingRecord> read_scaling(const std::string& path);

// The size that a number of learners has by the record: its batch (batch_split.h; without one a sample for each
// learner), on so many nodes as the present size has learners on each. kConflict as split_of_job().
Result<scaling::Size> size_of(const ScalingRecord& record, int learners);

// The measurements of earlier attempts of this job and of earlier jobs: those in `dir` itself, and in job directories
// beside it (dl-*, at most 500, the newest names first) that belong to `user` and have the same name, framework, GPU
// type and number of GPUs. Links are not followed. A directory that cannot be read is left out.
std::vector<scaling::Measured> earlier_measurements(const std::string& dir, const ScalingRecord& record, unsigned user);

}  // namespace dl::record
