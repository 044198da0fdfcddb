// SPDX-License-Identifier: Apache-2.0
// The secret of a pool: random bytes in a file that only its user can read. Whoever has them may read and change all
// that the pool holds.
#pragma once

#include <string>

#include "common/base/result.h"

namespace dl::pool {

// So many of the kernel's random bytes.
Result<std::string> random_bytes(size_t size);
// kSecretBytes of them.
Result<std::string> random_secret();
// Reads the secret. kDenied: others may read or change the file, or it belongs to somebody else.
Result<std::string> read_secret(const std::string& path);
// Puts the secret where `path` says, in place of an older one.
Status write_secret(const std::string& path, const std::string& secret);

}  // namespace dl::pool
