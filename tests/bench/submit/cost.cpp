// SPDX-License-Identifier: Apache-2.0
// What one call of job_submit costs: cost KIND COUNT [ACCOUNT] loads the built plugin as slurmctld does and calls it
// COUNT times with job descriptions of one KIND, each a new one. Prints "P50 P99 MAX" in microseconds. dl.toml is that
// beside $SLURM_CONF.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "slurm-plugin/slurm_abi.h"
#include "tests/plugin/slurm_symbols.h"

namespace dl::test {
namespace {

void set_list(char*** list, uint32_t* size, const std::vector<std::string>& entries) {
  *list = static_cast<char**>(slurm_xcalloc(entries.size() + 1, sizeof(char*), true, false, "", 0, ""));
  *size = static_cast<uint32_t>(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) (*list)[i] = slurm_xstrdup(entries[i].c_str());
}

// As sbatch sends it, with the environment of a login shell.
void fill(job_desc_msg_t* job, const std::string& kind, const char* account) {
  slurm_init_job_desc_msg(job);
  job->het_job_offset = NO_VAL;
  job->user_id = 1000;
  abi::set_string(&job->script, "#!/bin/sh\nsrun train.py\n");
  std::vector<std::string> environment;
  for (int i = 0; i < 60; ++i) environment.push_back("VARIABLE_" + std::to_string(i) + "=/some/value/of/a/login/shell");
  set_list(&job->environment, &job->env_size, environment);
  if (kind == "cpu") return;
  abi::set_string(&job->account, account);
  if (kind == "gpu") {
    abi::set_string(&job->tres_per_node, "gres:gpu:a100:2");
    job->min_nodes = job->max_nodes = 2;
    return;
  }
  const std::string flag = "_SLURM_SPANK_OPTION_dl_dl_";
  std::vector<std::string> flags = {flag + "framework=pytorch", flag + "learners=4", flag + "gpus=1",
                                    flag + "checkpoint=/ck,every=10m", flag + "restarts=3"};
  if (kind == "refused") flags[2] = flag + "gpus=4";
  set_list(&job->spank_job_env, &job->spank_job_env_size, flags);
}

void release(job_desc_msg_t* job, char* message) {
  for (char** field : {&job->script, &job->qos, &job->partition, &job->tres_per_node, &job->tres_per_task,
                       &job->account, &job->licenses, &job->admin_comment, &message})
    slurm_xfree(reinterpret_cast<void**>(field));
  for (auto [list, size] :
       {std::pair{&job->environment, job->env_size}, std::pair{&job->spank_job_env, job->spank_job_env_size}}) {
    for (uint32_t i = 0; *list != nullptr && i < size; ++i) slurm_xfree(reinterpret_cast<void**>(&(*list)[i]));
    slurm_xfree(reinterpret_cast<void**>(list));
  }
}

int measure(const std::string& kind, int count, const char* account) {
  void* plugin = load_plugin("job_submit.so");
  if (symbol<int()>(plugin, "init")() != 0) return 3;
  auto* submit = symbol<int(job_desc_msg_t*, uint32_t, char**)>(plugin, "job_submit");
  std::vector<double> took;
  for (int i = -count / 10; i < count; ++i) {
    job_desc_msg_t job;
    char* message = nullptr;
    fill(&job, kind, account);
    const auto began = std::chrono::steady_clock::now();
    const int status = submit(&job, 1000, &message);
    const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - began;
    if ((status == 0) == (kind == "refused")) {
      std::fprintf(stderr, "cost: a %s job: status %d: %s\n", kind.c_str(), status, message == nullptr ? "" : message);
      return 3;
    }
    if (i >= 0) took.push_back(spent.count());
    release(&job, message);
  }
  std::sort(took.begin(), took.end());
  std::printf("%.3f %.3f %.3f\n", took[took.size() / 2], took[took.size() * 99 / 100], took.back());
  return 0;
}

}  // namespace
}  // namespace dl::test

int main(int argc, char** argv) {
  if (argc < 3 || std::atoi(argv[2]) < 100) {
    std::fprintf(stderr, "usage: cost cpu|gpu|dl|refused COUNT [ACCOUNT]; COUNT from 100\n");
    return 2;
  }
  return dl::test::measure(argv[1], std::atoi(argv[2]), argc > 3 ? argv[3] : "t0");
}
