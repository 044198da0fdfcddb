// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace dl::ctl {

Result<UniqueFd> memory_file(std::string_view text) {
  constexpr const char* kWhat = "a file in memory";
  UniqueFd file(::memfd_create("dlctl", MFD_CLOEXEC));
  if (!file) return errno_error(kWhat, errno);
  while (!text.empty()) {
    const ssize_t done = ::write(file.get(), text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno_error(kWhat, errno);
    text.remove_prefix(static_cast<size_t>(done));
  }
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return errno_error(kWhat, errno);
  return file;
}

}  // namespace dl::ctl
