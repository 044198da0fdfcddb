// SPDX-License-Identifier: Apache-2.0
// dl-gpu-probe: prints one line of JSON about the GPUs of this node, and about the CUDA and NCCL that slurm-dl was
// linked with. It is a program of its own, because Slurm's daemons and dlrun must not load CUDA. It is built only if
// configure finds CUDA. A node without a driver or without GPUs is an answer ("gpus": []), not an error.
//
//   {"cuda_runtime":13000,"cuda_driver":0,"nccl":22703,"gpus":[{"index":0,"name":"...","memory_bytes":...}],"why":"..."}
//
// Exit status: 0 with an answer, 1 if it could not be written.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>

#include "config.h"
#ifdef HAVE_NCCL
#include <nccl.h>

#include "common/json/json.h"
#endif

namespace {

dl::Json probe() {
  dl::Json out;
  int runtime = 0;
  int driver = 0;
  int count = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);  // 0 if no driver is installed
  out["cuda_runtime"] = runtime;
  out["cuda_driver"] = driver;
#ifdef HAVE_NCCL
  int nccl = 0;
  if (ncclGetVersion(&nccl) == ncclSuccess) out["nccl"] = nccl;
#endif
  out["gpus"] = dl::Json::array();
  cudaError_t failed = cudaGetDeviceCount(&count);
  if (failed != cudaSuccess) {
    out["why"] = cudaGetErrorString(failed);
    return out;
  }
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    failed = cudaGetDeviceProperties(&properties, index);
    if (failed != cudaSuccess) {
      out["gpus"].push_back({{"index", index}, {"why", cudaGetErrorString(failed)}});
      continue;
    }
    out["gpus"].push_back(
        {{"index", index},
         {"name", std::string(properties.name)},
         {"memory_bytes", properties.totalGlobalMem},
         {"compute_capability", std::to_string(properties.major) + "." + std::to_string(properties.minor)}});
  }
  return out;
}

}  // namespace

int main() {
  try {
    const std::string text = probe().dump_sorted();
    return std::puts(text.c_str()) >= 0 && std::fflush(stdout) == 0 ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "dl-gpu-probe: %s\n", e.what());
    return 1;
  }
}
