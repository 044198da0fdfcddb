// SPDX-License-Identifier: Apache-2.0
// Many submissions at once: storm JOBS PROCESSES submits held GPU jobs of account t0 through libslurm, PROCESSES at a
// time. Prints "SECONDS P50 P99": of all, and of one submission, in milliseconds.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

extern "C" {
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
}

namespace {

using Clock = std::chrono::steady_clock;

// One job; its milliseconds, or less than 0.
double submit_one() {
  job_desc_msg_t job;
  slurm_init_job_desc_msg(&job);
  std::string path = "PATH=/usr/bin:/bin", name = "storm", script = "#!/bin/sh\ntrue\n", folder = "/tmp",
              null = "/dev/null";
  std::string account = "t0", gres = SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0) ? "gres/gpu:1" : "gres:gpu:1";
  char* environment[] = {path.data(), nullptr};
  job.environment = environment;
  job.env_size = 1;
  job.name = name.data();
  job.script = script.data();
  job.work_dir = folder.data();
  job.std_out = job.std_err = null.data();
  job.account = account.data();
  job.tres_per_node = gres.data();
  job.min_nodes = job.max_nodes = 1;
  job.priority = 0;
  job.user_id = ::getuid();
  job.group_id = ::getgid();
  submit_response_msg_t* answer = nullptr;
  const auto began = Clock::now();
  if (slurm_submit_batch_job(&job, &answer) != SLURM_SUCCESS) {
    std::fprintf(stderr, "storm: %s\n", slurm_strerror(errno));
    return -1;
  }
  const std::chrono::duration<double, std::milli> took = Clock::now() - began;
  slurm_free_submit_response_response_msg(answer);
  return took.count();
}

// Writes each time as a double to `pipe`.
int submit_some(int jobs, int pipe) {
  std::vector<double> took;
  for (int i = 0; i < jobs; ++i) {
    took.push_back(submit_one());
    if (took.back() < 0) return 1;
  }
  const auto bytes = static_cast<ssize_t>(took.size() * sizeof(double));
  return ::write(pipe, took.data(), static_cast<size_t>(bytes)) == bytes ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int jobs = argc == 3 ? std::atoi(argv[1]) : 0;
  const int processes = argc == 3 ? std::atoi(argv[2]) : 0;
  if (processes < 1 || jobs < processes || jobs / processes > 4000) {  // a pipe holds 64 KiB
    std::fprintf(stderr, "usage: storm JOBS PROCESSES\n");
    return 2;
  }
  int ends[2];
  if (::pipe(ends) != 0) return 3;
  slurm_init(nullptr);
  const auto began = Clock::now();
  for (int i = 0; i < processes; ++i)
    if (::fork() == 0) ::_exit(submit_some(jobs / processes, ends[1]));
  ::close(ends[1]);
  std::vector<double> took;
  for (double one = 0; ::read(ends[0], &one, sizeof one) == sizeof one;) took.push_back(one);
  int failed = 0;
  for (int status = 0; ::wait(&status) > 0;) failed += status != 0;
  const std::chrono::duration<double> all = Clock::now() - began;
  if (failed > 0 || took.empty()) return 3;
  std::sort(took.begin(), took.end());
  std::printf("%.4f %.3f %.3f\n", all.count(), took[took.size() / 2], took[took.size() * 99 / 100]);
  return 0;
}
