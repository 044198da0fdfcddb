// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/slurm_abi.h"

#include <cstring>

namespace dl::abi {

void set_string(char** field, const std::string& value) {
  char* copy = slurm_xstrdup(value.c_str());
  slurm_xfree(reinterpret_cast<void**>(field));
  *field = copy;
}

void add_environment(char*** environment, uint32_t* size, const std::string& name, const std::string& value) {
  const std::string start = name + "=";
  for (uint32_t i = 0; i < *size; ++i)
    if ((*environment)[i] != nullptr && std::strncmp((*environment)[i], start.c_str(), start.size()) == 0) return;
  auto** grown =
      static_cast<char**>(slurm_xcalloc(size_t{*size} + 2, sizeof(char*), true, false, __FILE__, __LINE__, __func__));
  for (uint32_t i = 0; i < *size; ++i) grown[i] = (*environment)[i];
  grown[*size] = slurm_xstrdup((start + value).c_str());
  slurm_xfree(reinterpret_cast<void**>(environment));
  *environment = grown;
  *size += 1;
}

}  // namespace dl::abi
