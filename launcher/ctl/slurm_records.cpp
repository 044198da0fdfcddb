// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/slurm_records.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "common/base/this_process.h"
#include "config.h"
#include "launcher/ctl/slurm_modules.h"

namespace dl::ctl {
namespace {

std::vector<std::string> folders() {
  const auto self = own_program();
  return module_folders(self ? *self : std::string(), DL_BINDIR, DL_PKGLIBDIR);
}

// The linker's message without the module's path at its start, which the caller's message has already.
std::string load_fault(const std::string& path) {
  const char* why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): dlctl has one thread
  const std::string text = why != nullptr ? why : "no reason is given";
  return text.compare(0, path.size() + 2, path + ": ") == 0 ? text.substr(path.size() + 2) : text;
}

Result<const observe::Module*> open_module(const std::string& path, const std::string& series) {
  // Slurm's own plugins (auth/munge) look for libslurm's symbols in the whole process, where RTLD_LOCAL would hide
  // them. The module itself exports one name.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    return Error{Errc::kUnsupported,
                 fmt::format("the module for Slurm {}, {}, does not load: {}; install libslurm of Slurm {}, or build "
                             "slurm-dl {} against the one that is here (make install-slurm-module)",
                             series, path, load_fault(path), series, PACKAGE_VERSION)};
  auto* entry = reinterpret_cast<observe::ModuleEntry*>(::dlsym(library, observe::kModuleSymbol));
  if (entry == nullptr)
    return Error{Errc::kUnsupported, path + " is not a module of slurm-dl: run make install-slurm-module again"};
  const observe::Module* module = entry();
  DL_TRY(check_module(*module, path, PACKAGE_VERSION, series));
  return module;
}

Result<const observe::Module*> module_for_this_slurm() {
  const auto version = slurm_cli::slurm_version();
  if (!version)
    return Error{Errc::kUnsupported, "the version of Slurm that runs here is not known: " + version.error().text};
  const std::vector<std::string> places = folders();
  DL_TRY_ASSIGN(const std::string path, choose_module(find_modules(places), *version, places));
  return open_module(path, series_of(*version));
}

}  // namespace

Result<observe::Records> read_slurm_records() {
  DL_TRY_ASSIGN(const observe::Module* module, module_for_this_slurm());
  observe::Records records;
  DL_TRY(module->load(&records));
  return records;
}

Status can_read_slurm_records() {
  DL_TRY(module_for_this_slurm());
  return {};
}

std::string served_versions() {
  const std::vector<SlurmModule> modules = find_modules(folders());
  return "for any Slurm; quota and why: " +
         (modules.empty() ? "no module is installed" : "for Slurm " + series_list(modules));
}

}  // namespace dl::ctl
