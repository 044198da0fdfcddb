// SPDX-License-Identifier: Apache-2.0
// The paths in a job directory, and the two small files through which dlctl and dlrun communicate. The names are those
// of the table in common/contract/job_directory.h. The directory must be on a file system that the batch node, the
// compute nodes and the user's login node share.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/base/result.h"
#include "common/contract/job_directory.h"

namespace dl {
struct PathNames;
}

namespace dl::record {

class JobDir {
 public:
  JobDir() = default;
  explicit JobDir(std::string absolute_path) : root_(std::move(absolute_path)) {}

  const std::string& root() const { return root_; }
  std::string events() const { return file(job_directory::kEvents); }
  std::string plan() const { return file(job_directory::kPlan); }
  std::string site() const { return file(job_directory::kSite); }
  std::string control() const { return file(job_directory::kControl); }
  std::string request() const { return file(job_directory::kRequest); }
  std::string lock() const { return file(job_directory::kLock); }
  std::string scaling() const { return file(job_directory::kScaling); }
  std::string results() const { return file(job_directory::kResults); }
  std::string logs() const { return file(job_directory::kLogs); }
  std::string attempt_logs(int attempt) const { return logs() + "/attempt-" + std::to_string(attempt); }
  std::string metrics() const { return file(job_directory::kMetrics); }
  std::string attempt_metrics(int attempt) const { return metrics() + "/attempt-" + std::to_string(attempt); }
  std::string learner_series(int attempt, int rank) const {
    return attempt_metrics(attempt) + "/learner-" + std::to_string(rank) + ".series";
  }
  std::string use_series(int attempt) const { return attempt_metrics(attempt) + "/use.series"; }
  std::string learner_values(int attempt, int rank) const {
    return attempt_metrics(attempt) + "/learner-" + std::to_string(rank) + ".jsonl";
  }
  // What dl-data is told, and how far it is: the sources, the progress on a node and of a store, and its outcome.
  std::string data() const { return file(job_directory::kData); }
  std::string sources() const { return data() + "/sources.json"; }
  std::string fetched(const std::string& node) const { return data() + "/fetch-" + node + ".json"; }
  std::string storing() const { return data() + "/store.json"; }
  std::string stored() const { return data() + "/stored.json"; }
  std::string learner_log(int attempt, int rank) const {
    return attempt_logs(attempt) + "/learner-" + std::to_string(rank) + ".log";
  }

  // Makes the directory with this mode, whatever the umask is; one that exists stays as it is. kDenied: another user's.
  Status make(mode_t mode) const;
  // Makes the folders for an attempt and points logs/latest at it. Errors name the folder and the reason; none if only
  // the folder for metrics cannot be made.
  Status prepare(int attempt) const;

 private:
  std::string file(const char* name) const { return root_ + "/" + name; }

  std::string root_;
};

// [launcher] job_dir of dl.toml or --job-dir for a job with these names; a relative path is taken from `base` (the
// submit directory). Empty if the pattern cannot be expanded, as when it holds a name that is not known. Pure.
std::string expand_job_dir(const std::string& pattern, const std::string& base, const PathNames& names);

// control.json
struct ControlInfo {
  std::string host;  // numeric address
  int port = 0;
  std::string secret;  // 32 hex digits
  std::string node;    // host name of dlrun's node
  pid_t pid = 0;
};
// Replaces the file, with mode 0600. Errors of replace_file().
Status write_control(const std::string& path, const ControlInfo& info);
// kNotFound if there is none (dlrun does not run); kInvalid if it is not such a file.
Result<ControlInfo> read_control(const std::string& path);
// Parses the text of control.json; if `text` is an error, returns that error. `path` is for messages.
Result<ControlInfo> parse_control(const std::string& path, Result<std::string> text);
constexpr size_t kMaxControlBytes = 64 << 10;

// request.json
struct FileRequest {
  std::string action;  // "pause"
  std::string reason;  // shown to people; may be empty
};
// Replaces the file atomically and durably, with mode 0644. Errors of write_file_atomically().
Status write_request(const std::string& path, const FileRequest& request);
// kNotFound if there is none; kInvalid if it is not such a file, or has no action.
Result<FileRequest> read_request(const std::string& path);

}  // namespace dl::record
