// SPDX-License-Identifier: Apache-2.0
// In job_submit_dl.so, too, which uses no C++ library.
#include "slurm-plugin/running_slurm.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>

#include "slurm-plugin/slurm_abi.h"

namespace dl::abi {
namespace {

constexpr size_t kMostPlugins = 200;
struct Names {
  char* name[kMostPlugins];
  size_t count;
};

// Called with a lock of the dynamic linker's held, so it only copies.
int note_plugin(dl_phdr_info* info, size_t /*size*/, void* data) {
  auto* names = static_cast<Names*>(data);
  const char* slash = std::strrchr(info->dlpi_name, '/');
  // Slurm's plugins are auth_munge.so and the like.
  if (slash == nullptr || std::strncmp(slash, "/lib", 4) == 0 || std::strchr(slash, '_') == nullptr) return 0;
  if (names->count == kMostPlugins) return 1;
  if (char* copy = ::strdup(info->dlpi_name)) names->name[names->count++] = copy;
  return 0;
}

// 0: it is none of Slurm's own. Slurm loads plugins of SPANK also from other micro releases.
unsigned int version_of_plugin(const char* path) {
  void* plugin = ::dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (plugin == nullptr) return 0;
  const auto* type = static_cast<const char*>(::dlsym(plugin, "plugin_type"));
  const auto* version = static_cast<const unsigned int*>(::dlsym(plugin, "plugin_version"));
  const bool own = type != nullptr && version != nullptr && std::strcmp(type, "spank") != 0 &&
                   ::dlsym(plugin, "plugin_name") != nullptr && ::dlsym(plugin, "dl_release") == nullptr;
  const unsigned int found = own ? *version : 0;
  (void)::dlclose(plugin);
  return found;
}

unsigned int version_of_plugins() {
  Names names{};
  (void)::dl_iterate_phdr(note_plugin, &names);
  unsigned int version = 0;
  for (size_t i = 0; i < names.count; ++i) {
    if (version == 0) version = version_of_plugin(names.name[i]);
    std::free(names.name[i]);
  }
  return version;
}

}  // namespace

unsigned int running_slurm() {
  if (const unsigned int version = version_of_plugins()) return version;
  const unsigned int release = slurm_api_version != nullptr ? release_of_api(slurm_api_version() >> 16) : 0;
  return release != 0 ? release : SLURM_VERSION_NUMBER;
}

}  // namespace dl::abi
