// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/objects.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <thread>

#include "common/base/parse.h"
#include "common/contract/data_request.h"

namespace dl::ckpt::tool {
namespace {

constexpr int kLowerPriority = 10;
constexpr std::chrono::milliseconds kLookEvery{200};
constexpr std::chrono::seconds kSignEvery{1};

// Keeps the descriptors 0 to 2 alone.
void close_descriptors() {
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) == 0) return;
#endif
  std::vector<int> open;
  if (DIR* folder = ::opendir("/proc/self/fd")) {
    while (const dirent* item = ::readdir(folder))
      if (const auto fd = parse_int(item->d_name, STDERR_FILENO + 1, INT_MAX)) open.push_back(static_cast<int>(*fd));
    ::closedir(folder);
  }
  for (const int fd : open) ::close(fd);
}

}  // namespace

bool is_object_place(const std::string& path) {
  return data::place_of(path) == data::Place::kRemote;
}

Result<std::unique_ptr<RcloneObjects>> open_objects(const std::string& place) {
  std::signal(SIGPIPE, SIG_IGN);  // a rclone that ends early is an error of one call
  return RcloneObjects::open(place);
}

void add_beside(CommandLine* command, int64_t* pid) {
  command->option("--beside", pid, "Process for which libdlckpt has started this").hidden();
}

void work_beside(int64_t pid) {
  if (pid <= 0) return;
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) std::signal(number, SIG_IGN);
  close_descriptors();
  ::setpriority(PRIO_PROCESS, 0, kLowerPriority);
  // PR_SET_PDEATHSIG would tell of the end of the thread that has started us. This process ends at once, and rclone
  // with it, without cleaning up: the next run may be at work in the directory already, and collects what was left
  // there.
  std::thread([pid] {
    while (::getppid() == pid) std::this_thread::sleep_for(kLookEvery);
    ::_exit(kNothing);
  }).detach();
}

void SignsOfLife::give() {
  const auto now = std::chrono::steady_clock::now();
  if (told_to_ <= 0 || (given_ && now - *given_ < kSignEvery)) return;
  given_ = now;
  print_line("moved");
  std::fflush(stdout);
}

int answer(const std::vector<std::string>& words) {
  std::string line = "ok";
  for (const std::string& word : words) line += " " + word;
  print_line(line);
  return kOk;
}

int exit_code_of(const Error& error) {
  if (error.code == Errc::kInvalid || error.code == Errc::kExists) return kUsage;
  return error.code == Errc::kCorrupt ? kDamaged : kNothing;
}

}  // namespace dl::ckpt::tool
