// SPDX-License-Identifier: Apache-2.0
// The job directory: what is where in it, and the two small files by which dlctl and dlrun talk. All of it lies on a
// file system that the batch node, the compute nodes and the user's login node share.
//
//   events.jsonl              history (event_log.h)
//   plan.json                 the launch plan of the newest attempt
//   site.toml                 dl.toml as the job began with it, for when the site's has a fault
//   control.json (mode 0600)  where dlrun listens, and the secret; present only while it runs
//   request.json              what dlctl asks where it cannot connect: {"action":"pause"}; dlrun removes it when taken
//   dlrun.lock                who works here (job_lock.h)
//   logs/attempt-A/learner-R.log, logs/latest -> attempt-A
//   results/                  RESULT_DIR of the learners
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace dl::record {

class JobDir {
 public:
  JobDir() = default;
  explicit JobDir(std::string absolute_path) : root_(std::move(absolute_path)) {}

  const std::string& root() const { return root_; }
  std::string events() const { return root_ + "/events.jsonl"; }
  std::string plan() const { return root_ + "/plan.json"; }
  std::string site() const { return root_ + "/site.toml"; }
  std::string control() const { return root_ + "/control.json"; }
  std::string request() const { return root_ + "/request.json"; }
  std::string lock() const { return root_ + "/dlrun.lock"; }
  std::string results() const { return root_ + "/results"; }
  std::string logs() const { return root_ + "/logs"; }
  std::string attempt_logs(int attempt) const { return logs() + "/attempt-" + std::to_string(attempt); }
  std::string learner_log(int attempt, int rank) const {
    return attempt_logs(attempt) + "/learner-" + std::to_string(rank) + ".log";
  }

  // Makes the folders for an attempt and points logs/latest at it. Errors name the folder and the reason.
  Status prepare(int attempt) const;

 private:
  std::string root_;
};

// [launcher] job_dir of dl.toml or --job-dir: "%j" becomes the job id, a relative path is taken from `base` (the submit
// directory). Pure.
std::string expand_job_dir(const std::string& pattern, const std::string& base, const std::string& job_id);

// control.json
struct ControlInfo {
  std::string host;  // numeric address
  int port = 0;
  std::string secret;  // 32 hex digits
  std::string node;    // host name of dlrun's node
  pid_t pid = 0;
};
Status write_control(const std::string& path, const ControlInfo& info);
// kNotFound if there is none (dlrun does not run); kInvalid if it is not such a file.
Result<ControlInfo> read_control(const std::string& path);

// request.json
struct FileRequest {
  std::string action;  // "pause"
  std::string reason;  // shown to people; may be empty
};
Status write_request(const std::string& path, const FileRequest& request);
Result<FileRequest> read_request(const std::string& path);

}  // namespace dl::record
