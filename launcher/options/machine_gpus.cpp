// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/machine_gpus.h"

#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "common/base/parse.h"

namespace dl {
namespace {

// True for "nvidia0", but not for "nvidiactl" or "nvidia-uvm".
bool is_gpu(const std::string& name) {
  constexpr std::string_view kStart = "nvidia";
  return name.size() > kStart.size() && name.compare(0, kStart.size(), kStart) == 0 &&
         std::all_of(name.begin() + kStart.size(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Whether NVIDIA's driver is there although its device files are not: some container runtimes create them on first use.
bool has_driver_library() {
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library != nullptr) ::dlclose(library);
  return library != nullptr;
}

}  // namespace

int machine_gpus() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const int count = count_machine_gpus(visible, "/dev");
  return count == 0 && visible == nullptr && has_driver_library() ? -1 : count;
}

int count_machine_gpus(const char* visible, const std::string& devices) {
  if (visible != nullptr) {
    int count = 0;
    for (const std::string& name : split(visible, ',')) {
      if (name.empty() || name == "-1" || name == "NoDevFiles") break;
      ++count;
    }
    return count;
  }
  int count = 0;
  if (DIR* folder = ::opendir(devices.c_str()); folder != nullptr) {
    while (const dirent* entry = ::readdir(folder)) count += is_gpu(entry->d_name) ? 1 : 0;
    ::closedir(folder);
  }
  if (count > 0) return count;
  // AMD's driver has another device file, and so has NVIDIA's under WSL.
  for (const char* other : {"/kfd", "/dxg"})
    if (::access((devices + other).c_str(), F_OK) == 0) return -1;
  return 0;
}

}  // namespace dl
