// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/secret.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "common/base/unique_fd.h"
#include "launcher/pool/proof.h"

namespace dl::pool {

Result<std::string> random_secret() {
  std::string secret(kSecretBytes, '\0');
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
    return errno_error("random numbers for the secret of a pool", errno);
  return secret;
}

Result<std::string> read_secret(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return errno_error("the secret of the pool, " + path, errno);
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return errno_error("the secret of the pool, " + path, errno);
  if (!S_ISREG(status.st_mode) || (status.st_mode & 077) != 0 || status.st_uid != ::geteuid())
    return Error{Errc::kDenied, "the secret of the pool, " + path +
                                    ", may be read by others; allowed: a file of this user with mode 0600"};
  std::string secret(kSecretBytes + 1, '\0');
  const ssize_t n = ::read(fd.get(), secret.data(), secret.size());
  if (n != static_cast<ssize_t>(kSecretBytes))
    return Error{Errc::kCorrupt,
                 "the secret of the pool, " + path + ", has not " + std::to_string(kSecretBytes) + " bytes"};
  secret.resize(kSecretBytes);
  return secret;
}

Status write_secret(const std::string& path, const std::string& secret) {
  const std::string made = path + "." + std::to_string(::getpid()) + ".new";
  ::unlink(made.c_str());
  UniqueFd fd(::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return errno_error("the secret of the pool, " + made, errno);
  const bool written = ::write(fd.get(), secret.data(), secret.size()) == static_cast<ssize_t>(secret.size());
  if (!written || fd.close() != 0 || ::rename(made.c_str(), path.c_str()) != 0) {
    const int failure = errno;
    ::unlink(made.c_str());
    return errno_error("the secret of the pool, " + path, failure);
  }
  return {};
}

}  // namespace dl::pool
