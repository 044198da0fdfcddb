// SPDX-License-Identifier: Apache-2.0
// observe.so: dlctl loads it to read Slurm's records.
#include "slurm-plugin/observe/module.h"

#include "common/base/guard.h"
#include "config.h"
#include "slurm-plugin/observe/slurm_client.h"

namespace dl::observe {
namespace {

Status load(Records* into) noexcept {
  const Error thrown{Errc::kInternal, "Slurm's records cannot be read: out of memory, or a fault of slurm-dl"};
  return guard(
      Status(thrown), [](const char*) {},
      [into]() -> Status {
        start_slurm();
        Observer observer;
        DL_TRY_ASSIGN(const Records* records, observer.load());
        *into = *records;
        return {};
      });
}

}  // namespace
}  // namespace dl::observe

extern "C" const dl::observe::Module* dl_observe_module() noexcept {
  static const dl::observe::Module module = {PACKAGE_VERSION, DL_SLURM_SERIES, dl::observe::record_shape(),
                                             &dl::observe::load};
  return &module;
}
