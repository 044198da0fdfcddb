// SPDX-License-Identifier: Apache-2.0
// Headers that most files include, parsed once for all of them: reading them takes a quarter of a file's CPU time.
//
// The build puts this header in front of each C++ file (Makefile.inc). No file may rely on that: each includes what it
// uses, and clang-tidy, which does not see this header, finds what is missing. Headers of our own that change often
// stay out, because after a change here everything is compiled again.
#ifndef DL_COMMON_PRECOMPILED_H  // GCC warns of #pragma once in a header that it precompiles
#define DL_COMMON_PRECOMPILED_H

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/instances.h"
#include "common/base/parse.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/contract/request_values.h"
#include "common/json/json.h"

#endif
