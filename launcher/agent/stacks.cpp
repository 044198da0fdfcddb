// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/stacks.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/contract/env_names.h"
#include "common/process/child_process.h"
#include "common/process/descendants.h"
#include "launcher/agent/nccl_ras.h"
#include "launcher/agent/use_texts.h"

namespace dl::agent {
namespace {

constexpr size_t kMaxText = 1 << 20;
constexpr size_t kMaxThreads = 200;  // of one process
constexpr size_t kMaxProcesses = 64;
constexpr std::chrono::milliseconds kToolLimit{4000};
constexpr std::chrono::milliseconds kNcclLimit{4000};
constexpr std::chrono::milliseconds kLimit{9000};

std::string small(const std::string& path) {
  auto text = read_small_file(path, 64 << 10);
  return text ? *text : std::string();
}

// The fields of /proc/PID/stat after the process's name, which may contain anything. The first of them is the state.
std::vector<std::string> stat_fields(pid_t pid) {
  const std::string text = small("/proc/" + std::to_string(pid) + "/stat");
  const size_t close = text.rfind(')');
  if (close == std::string::npos || close + 2 > text.size()) return {};
  return split(trim(std::string_view(text).substr(close + 1)), ' ');
}

std::vector<std::string> threads_of(pid_t pid) {
  std::vector<std::string> threads;
  DIR* folder = ::opendir(("/proc/" + std::to_string(pid) + "/task").c_str());
  if (folder == nullptr) return threads;
  while (const dirent* entry = ::readdir(folder))
    if (entry->d_name[0] != '.' && threads.size() < kMaxThreads) threads.emplace_back(entry->d_name);
  ::closedir(folder);
  return threads;
}

void add(std::string* out, const std::string& text) {
  if (out->size() < kMaxText) *out += text.substr(0, kMaxText - out->size());
}

// Adds what the kernel shows of each thread. Files that cannot be read are left out.
void add_kernel_view(pid_t pid, std::string* out) {
  std::string command = small("/proc/" + std::to_string(pid) + "/cmdline");
  std::replace(command.begin(), command.end(), '\0', ' ');
  add(out, "== process " + std::to_string(pid) + ": " + printable(command, 200) + "\n");
  for (const std::string& thread : threads_of(pid)) {
    const std::string folder = "/proc/" + std::to_string(pid) + "/task/" + thread + "/";
    add(out, "thread " + thread + " " + std::string(trim(small(folder + "comm"))));
    const std::string status = small(folder + "status");
    const size_t state = status.find("\nState:");
    if (state != std::string::npos) add(out, ", " + status.substr(state + 8, status.find('\n', state + 1) - state - 8));
    add(out, ", wchan " + small(folder + "wchan") + ", syscall " + std::string(trim(small(folder + "syscall"))) + "\n");
    add(out, small(folder + "stack"));
  }
}

// Adds the stacks: py-spy prints Python's frames, and gdb all others.
void add_stacks(pid_t pid, std::string* out) {
  const std::string id = std::to_string(pid);
  const std::vector<std::vector<std::string>> tools = {
      {"py-spy", "dump", "--nonblocking", "--pid", id},
      {"gdb", "-p", id, "-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex", "thread apply all backtrace 40"}};
  for (const auto& argv : tools) {
    if (find_program(argv[0]).empty()) continue;
    CommandOptions options;
    options.timeout = kToolLimit;
    options.max_output = kMaxText / 4;
    const auto result = run_command(argv, options);
    if (result && result->ok() && !result->out.empty()) return add(out, "-- " + argv[0] + "\n" + result->out);
  }
}

// "learner 3 (process 4711)": the learner to which a process belongs, as its environment says.
std::string learner_of(pid_t pid) {
  const std::string name = std::string(env::kRank) + "=";
  for (const std::string& item : split(small("/proc/" + std::to_string(pid) + "/environ"), '\0'))
    if (item.rfind(name, 0) == 0)
      return "learner " + printable(item.substr(name.size()), 20) + " (process " + std::to_string(pid) + ")";
  return "process " + std::to_string(pid);
}

// Adds NCCL's status. The time limit keeps an unresponsive NCCL from using up the time for everything else.
void add_nccl(pid_t root, std::string* out) {
  const NcclStatus status =
      nccl_status(nccl_ras_address(small("/proc/" + std::to_string(root) + "/environ")), kNcclLimit);
  if (status.text.empty()) return;
  add(out, "== NCCL's status of the job" + (status.from > 0 ? ", told by " + learner_of(status.from) : std::string()) +
               "\n" + status.text + (status.text.back() == '\n' ? "" : "\n"));
}

}  // namespace

char main_thread_state(pid_t pid) {
  const auto fields = stat_fields(pid);
  return fields.empty() || fields[0].empty() ? '?' : fields[0][0];
}

int64_t cpu_ms_of_tree(pid_t root) {
  const long ticks = ::sysconf(_SC_CLK_TCK);
  std::vector<pid_t> pids = descendants_of(root);
  pids.push_back(root);
  int64_t sum = 0;
  for (pid_t pid : pids) sum += std::max<int64_t>(0, cpu_ticks(small("/proc/" + std::to_string(pid) + "/stat")));
  return ticks > 0 ? sum * 1000 / ticks : 0;
}

void write_stacks(pid_t root, bool ask_nccl, const std::string& path) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<pid_t> pids = descendants_of(root);
  pids.insert(pids.begin(), root);
  if (pids.size() > kMaxProcesses) pids.resize(kMaxProcesses);
  std::string text;
  for (pid_t pid : pids) add_kernel_view(pid, &text);
  // What costs nothing is written first, so that it is there even if the rest takes too long.
  ignore(write_file_atomically(path, text), "the cause is named without it");
  if (ask_nccl) add_nccl(root, &text);
  for (pid_t pid : pids) {
    if (std::chrono::steady_clock::now() - begin + kToolLimit > kLimit) break;
    add_stacks(pid, &text);
  }
  ignore(write_file_atomically(path, text), "the kernel's view is there");
}

}  // namespace dl::agent
