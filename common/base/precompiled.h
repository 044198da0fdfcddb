// SPDX-License-Identifier: Apache-2.0
// Headers that most files include, parsed once for all of them: reading them takes a quarter of a file's CPU time.
//
// The build puts this header in front of each C++ file (Makefile.inc). No file may rely on that: each includes what it
// uses, and clang-tidy, which does not see this header, finds what is missing. Headers of our own that change often
// stay out, because after a change here everything is compiled again.
#ifndef DL_COMMON_BASE_PRECOMPILED_H  // GCC warns of #pragma once in a header that it precompiles
#define DL_COMMON_BASE_PRECOMPILED_H

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/parse.h"
#include "common/base/result.h"

#endif
