// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/device.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "config.h"

namespace dl::learner {
namespace {

// From cuda.h. The values belong to the driver's ABI.
constexpr int kAttributeMemoryType = 2;
constexpr unsigned kMemoryTypeDevice = 2;
using PointerGetAttribute = int(void* data, int attribute, uintptr_t pointer);

// The driver's function, or nullptr. It is looked for at each call until it is found, since a program may load CUDA
// later than this library.
PointerGetAttribute* driver() {
  static PointerGetAttribute* known = nullptr;  // used by one thread at a time (dllearner.h)
  if (known != nullptr) return known;
  void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  known = reinterpret_cast<PointerGetAttribute*>(::dlsym(library, "cuPointerGetAttribute"));
  return known;
}

std::string module_path() {
  const char* given = std::getenv("DLLEARNER_NCCL_MODULE");  // NOLINT(concurrency-mt-unsafe)
  return given != nullptr ? given : DL_PKGLIBDIR "/dllearner_nccl.so";
}

}  // namespace

bool is_device_memory(const void* address) {
  PointerGetAttribute* ask = driver();
  if (ask == nullptr || address == nullptr) return false;
  unsigned type = 0;
  // CUDA returns an error for memory that it does not know, which is host memory. Managed memory has the type device.
  return ask(&type, kAttributeMemoryType, reinterpret_cast<uintptr_t>(address)) == 0 && type == kMemoryTypeDevice;
}

bool has_device_backend() {
#ifdef HAVE_NCCL
  return true;
#else
  return false;
#endif
}

Result<std::unique_ptr<Backend>> open_device_backend(Backend* host, double timeout_s) {
  if (!has_device_backend())
    return Error{Errc::kUnsupported,
                 "memory of a GPU needs NCCL, and this libdllearner was built without; allowed: memory of the host"};
  const std::string path = module_path();
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    const char* why = ::dlerror();  // NOLINT(concurrency-mt-unsafe)
    return Error{Errc::kUnsupported, "memory of GPUs needs NCCL: " + std::string(why != nullptr ? why : path)};
  }
  auto* open = reinterpret_cast<OpenDeviceBackend*>(::dlsym(module, kOpenDeviceBackend));
  if (open == nullptr)
    return Error{Errc::kUnsupported, path + " is not the module of this libdllearner; install slurm-dl as a whole"};
  return open(host, timeout_s);
}

}  // namespace dl::learner
