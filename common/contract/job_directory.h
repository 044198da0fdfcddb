// SPDX-License-Identifier: Apache-2.0
// The files of a job directory: one row for each, with who writes it and when, how large it may get and who may read
// it. dl-job-directory(5) describes the same files and their content for authors of tools. tests/lint/tables.sh checks
// that page against this table; tests/lib/job_directory.bash (in tests/cli/dlrun.bats and tests/cluster/preflight.bats)
// checks names and modes of the table against the directories of real jobs. To add a file, add a row here and describe
// it there.
#pragma once

#include <cstdint>

namespace dl::job_directory {

// The version of the layout and of the meaning of the files; plan.json has it as "directory_version". It is raised when
// a reader of the old version would misread the new one; new files and new members do not raise it.
constexpr int kVersion = 1;

constexpr char kEvents[] = "events.jsonl";
constexpr char kPlan[] = "plan.json";
constexpr char kSite[] = "site.toml";
constexpr char kControl[] = "control.json";
constexpr char kLock[] = "dlrun.lock";
constexpr char kRequest[] = "request.json";
constexpr char kPreflight[] = "preflight.json";
constexpr char kHostfile[] = "hostfile";
constexpr char kScaling[] = "scaling.json";
constexpr char kLogs[] = "logs";
constexpr char kMetrics[] = "metrics";
constexpr char kResults[] = "results";
constexpr char kImage[] = "image";
constexpr char kData[] = "data";

constexpr int64_t kGrows = 0;  // the file grows with the job; slurm-dl sets no limit

struct File {
  const char* name;  // the name of a folder stands for everything below it
  const char* written_by;
  const char* when;
  int64_t most_bytes;  // or kGrows
  int mode;            // 0666 or 0777: the job's umask applies
  bool promised;       // dl-job-directory(5) lists it in "WHAT TO RELY ON"
};

constexpr File kFiles[] = {
    {kEvents, "dlrun, dl-requeue", "a line is appended at each change of state", kGrows, 0644, true},
    {kPlan, "dlrun", "replaced when an attempt begins", kGrows, 0644, true},
    {kSite, "dlrun", "replaced when dlrun starts", 1 << 20, 0644, false},
    {kControl, "dlrun", "there while dlrun runs", 64 << 10, 0600, false},
    {kLock, "dlrun", "locked while dlrun runs, never removed", 4 << 10, 0644, false},
    {kRequest, "dlctl, people", "to ask for a pause; dlrun removes it", 64 << 10, 0644, true},
    {kPreflight, "dlrun", "replaced when nodes were checked", kGrows, 0644, false},
    {kHostfile, "dlrun", "when agents are started", kGrows, 0644, false},
    {kScaling, "dlrun", "replaced while train steps are counted", 256 << 10, 0644, false},
    {kLogs, "dlrun, dl-agent", "one folder for each attempt", kGrows, 0777, true},
    {kMetrics, "dlrun, dl-metrics, learners", "one folder for each attempt", kGrows, 0777, false},
    {kResults, "learners", "made by dlrun when an attempt begins", kGrows, 0777, true},
    {kData, "dlrun, dl-data", "with --data or --results: what is fetched and stored", kGrows, 0700, false},
    {kImage, "dlrun", "at each start of dlrun with a container image", kGrows, 0777, false},
};

}  // namespace dl::job_directory
