// SPDX-License-Identifier: Apache-2.0
// CUDA and NCCL for machines without a GPU: what libdllearner and the checks of nodes call of libcuda.so.1, libcudart
// and libnccl.so.2, compiled against NVIDIA's own headers, so that the types are theirs. One library under three names.
// Only tests load it. Streams work off what was queued in threads of their own; memory "of a GPU" is host memory.
//
// Variables of the environment say what goes wrong. The NAME of a process is its SLURMD_NODENAME, else "rankN" by its
// DL_RANK, else "here".
//   GPU_DOUBLE_COUNT      GPUs of each process; 1
//   GPU_DOUBLE_FOLDER     where communicators have a file that all processes map; /dev/shm
//   GPU_DOUBLE_RATE       bytes/s, the bus bandwidth of every collective; 20e9
//   GPU_DOUBLE_SLOW       NAME,NAME-NAME: a tenth of it where this process, or both of a link, take part
//   GPU_DOUBLE_NO_INIT    NAMEs: the communicator fails
//   GPU_DOUBLE_NO_SHOW    NAMEs: never takes part in a communicator
//   GPU_DOUBLE_HANG       NAMEs: its part of a collective never begins
//   GPU_DOUBLE_FAIL       NAMEs: a collective that was started fails
//   GPU_DOUBLE_LAG        NAMEs: its collectives end 0.3 s later, and fail if another rank has aborted meanwhile
//   GPU_DOUBLE_FROM       the first of its collectives to which HANG and FAIL apply; 0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <string>

namespace gpu_double {

std::string my_name();
bool among(const char* variable, const std::string& name);  // in a list of names
double number(const char* variable, double otherwise);
int current_device();
void queue(cudaStream_t stream, std::function<void()> work);

}  // namespace gpu_double
