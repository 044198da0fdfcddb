// SPDX-License-Identifier: Apache-2.0
// Many submissions at once: storm JOBS PROCESSES submits held GPU jobs of account t0 through libslurm, PROCESSES at a
// time. With TENANTS SECONDS behind: jobs that may start, of accounts t0, t1, ... in turn, which run so long; every
// second one of an account asks for 2 GPUs, the others for one. Prints "SECONDS P50 P99": of all, and of one
// submission, in milliseconds.
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

struct Kind {
  int tenants = 0;  // 0: held jobs
  int seconds = 0;
};

// One job; its milliseconds, or less than 0.
double submit_one(const Kind& kind, int number) {
  job_desc_msg_t job;
  slurm_init_job_desc_msg(&job);
  std::string path = "PATH=/usr/bin:/bin", name = "storm", folder = "/tmp", null = "/dev/null";
  std::string script = "#!/bin/sh\nexec sleep " + std::to_string(kind.seconds) + "\n";
  std::string account = "t" + std::to_string(kind.tenants > 0 ? number % kind.tenants : 0);
  std::string gres = SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0) ? "gres/gpu:" : "gres:gpu:";
  gres += kind.tenants > 0 && number / kind.tenants % 2 == 1 ? "2" : "1";
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
  if (kind.tenants == 0) job.priority = 0;
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
int submit_some(const Kind& kind, int jobs, int pipe) {
  std::vector<double> took;
  for (int i = 0; i < jobs; ++i) {
    took.push_back(submit_one(kind, i));
    if (took.back() < 0) return 1;
  }
  const auto bytes = static_cast<ssize_t>(took.size() * sizeof(double));
  return ::write(pipe, took.data(), static_cast<size_t>(bytes)) == bytes ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool well_formed = argc == 3 || argc == 5;
  const int jobs = well_formed ? std::atoi(argv[1]) : 0;
  const int processes = well_formed ? std::atoi(argv[2]) : 0;
  const Kind kind = argc == 5 ? Kind{std::atoi(argv[3]), std::atoi(argv[4])} : Kind{};
  if (processes < 1 || jobs < processes || jobs / processes > 4000) {  // a pipe holds 64 KiB
    std::fprintf(stderr, "usage: storm JOBS PROCESSES [TENANTS SECONDS]\n");
    return 2;
  }
  int ends[2];
  if (::pipe(ends) != 0) return 3;
  slurm_init(nullptr);
  const auto began = Clock::now();
  for (int i = 0; i < processes; ++i)
    if (::fork() == 0) ::_exit(submit_some(kind, jobs / processes, ends[1]));
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
