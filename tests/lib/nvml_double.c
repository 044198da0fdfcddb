// SPDX-License-Identifier: Apache-2.0
// A double of NVIDIA's management library, for machines without a GPU: a GPU for each word of the file that
// $NVML_DOUBLE names ("0 97": GPU 0 is not used, GPU 1 is at 97 %; a word "x": its use cannot be had, "h": whoever asks
// for it waits for ever). A GPU has 10 MiB in use and takes 4 W for each percent. It gives no samples and no energy, as
// older GPUs. A word such as "90/45": one of the newer GPUs, which tell that 45 % of their SMs were busy. "80e": one
// that counts its energy, whoever uses it.
//   cc -shared -fPIC -o libnvidia-ml.so.1 nvml_double.c; LD_LIBRARY_PATH=FOLDER
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char uses[16][8];

static unsigned gpus_now(void) {
  const char* path = getenv("NVML_DOUBLE");
  FILE* file = path ? fopen(path, "r") : NULL;
  unsigned count = 0;
  if (!file) return 0;
  while (count < 16 && fscanf(file, "%7s", uses[count]) == 1) ++count;
  fclose(file);
  return count;
}

int nvmlInit_v2(void) {
  return 0;
}
int nvmlShutdown(void) {
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = gpus_now();
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= gpus_now()) return 2;  // NVML_ERROR_INVALID_ARGUMENT
  *device = uses[index];
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (strncmp(uuid, "GPU-", 4) != 0) return 6;  // NVML_ERROR_NOT_FOUND
  return nvmlDeviceGetHandleByIndex_v2((unsigned)atoi(uuid + 4), device);
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* gpu_and_memory) {
  gpus_now();
  if (*(char*)device == 'x') return 3;  // NVML_ERROR_NOT_SUPPORTED
  while (*(char*)device == 'h') pause();
  gpu_and_memory[0] = (unsigned)atoi(device);
  gpu_and_memory[1] = 0;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
  total_free_used[0] = 1ULL << 36;
  total_free_used[2] = (unsigned long long)atoi(device) * (10ULL << 20);
  total_free_used[1] = total_free_used[0] - total_free_used[2];
  return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = (unsigned)atoi(device) * 4000;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  struct timespec now;
  if (!strchr(device, 'e')) return 3;  // NVML_ERROR_NOT_SUPPORTED
  clock_gettime(CLOCK_MONOTONIC, &now);
  *millijoules = 4ULL * (unsigned)atoi(device) * (unsigned long long)(now.tv_sec * 1000 + now.tv_nsec / 1000000);
  return 0;
}

// ---- GPM: two samples are enough to ask for what lies between them; these only say of which GPU they are.
int nvmlGpmQueryDeviceSupport(void* device, unsigned* version_and_supported) {
  if (version_and_supported[0] != 1) return 25;  // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
  version_and_supported[1] = strchr(device, '/') != NULL;
  return 0;
}
int nvmlGpmSampleAlloc(void** sample) {
  *sample = calloc(1, sizeof(void*));
  return *sample ? 0 : 20;  // NVML_ERROR_MEMORY
}
int nvmlGpmSampleFree(void* sample) {
  free(sample);
  return 0;
}
int nvmlGpmSampleGet(void* device, void* sample) {
  gpus_now();
  *(void**)sample = device;
  return 0;
}
struct metric {
  unsigned id;
  int result;
  double value;
  const char* names[3];
};
struct question {
  unsigned version, count;
  void **from, **to;
  struct metric metrics[333];
};
int nvmlGpmMetricsGet(struct question* question) {
  const char* busy;
  if (question->version != 1 || question->count != 1 || question->metrics[0].id != 2) return 2;
  if (!*question->from || *question->from != *question->to) return 2;
  busy = strchr(*question->to, '/');
  question->metrics[0].result = busy ? 0 : 3;
  question->metrics[0].value = busy ? atoi(busy + 1) : 0;
  return 0;
}
