// SPDX-License-Identifier: Apache-2.0
// The symbols that Slurm's programs give to a plugin, for tests that load one without them: an allocator that notices
// what was not its own, and a log that is kept. Defined in the test program and exported from it.
#pragma once

#include <string>
#include <vector>

namespace dl::test {

// What the plugin logged, in order; safe to call while it is being called.
std::vector<std::string> logged_errors();
std::vector<std::string> logged_infos();
void clear_log();
// Blocks of Slurm's allocator that are in use.
long blocks_in_use();

// The top of the source tree: $top_srcdir, as `make check` sets it, or the folder above.
std::string source_folder();

// dlopen() of the built plugin, as Slurm does it (RTLD_NOW | RTLD_LOCAL... but for the lazy binding, which -z now
// undoes); the process ends with a message if it cannot be loaded.
void* load_plugin(const char* name);
template <typename F>
F* symbol(void* plugin, const char* name);
void* find_symbol(void* plugin, const char* name);
template <typename F>
F* symbol(void* plugin, const char* name) {
  return reinterpret_cast<F*>(find_symbol(plugin, name));
}

}  // namespace dl::test
