// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/secret.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/base/atomic_file.h"
#include "common/base/unique_fd.h"
#include "launcher/pool/proof.h"

namespace dl::pool {

Result<std::string> random_bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t filled = 0; filled < size;) {
    const ssize_t n = ::getrandom(bytes.data() + filled, size - filled, 0);
    if (n < 0 && errno != EINTR) return errno_error("random numbers for a pool", errno);
    filled += static_cast<size_t>(std::max<ssize_t>(n, 0));
  }
  return bytes;
}

Result<std::string> random_secret() {
  return random_bytes(kSecretBytes);
}

Result<std::string> read_secret(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return errno_error("the secret of the pool, " + path, errno);
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return errno_error("the secret of the pool, " + path, errno);
  const auto refuse = [&](const char* why) {
    return Error{Errc::kDenied,
                 "the secret of the pool, " + path + ", " + why + "; allowed: a file of this user with mode 0600"};
  };
  if (!S_ISREG(status.st_mode)) return refuse("is not a regular file");
  if (status.st_uid != ::geteuid()) return refuse("belongs to another user");
  if ((status.st_mode & 077) != 0) return refuse("may be read or changed by others");
  std::string secret(kSecretBytes + 1, '\0');
  const ssize_t n = ::read(fd.get(), secret.data(), secret.size());
  if (n != static_cast<ssize_t>(kSecretBytes))
    return Error{Errc::kCorrupt,
                 "the secret of the pool, " + path + ", has not " + std::to_string(kSecretBytes) + " bytes"};
  secret.resize(kSecretBytes);
  return secret;
}

Status write_secret(const std::string& path, const std::string& secret) {
  return replace_file(path, secret, 0600);
}

}  // namespace dl::pool
