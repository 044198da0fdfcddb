// SPDX-License-Identifier: Apache-2.0
// Parses TOML. Only this header includes toml++, so that its settings, and the protection against its bugs, are the
// same everywhere. The parser runs inside slurmctld, on files that people write.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace dl {
void toml_assertion_failed();  // throws
}  // namespace dl

// toml++ 3.3 asserts on some malformed input ("[=", "[[["): an abort in a debug build, undefined behaviour under
// NDEBUG, where the assertion becomes an assumption. Here a failed assertion throws an exception, whatever NDEBUG says,
// and parse_toml() turns it into an error.
#ifdef NDEBUG
#define DL_TOML_NDEBUG
#undef NDEBUG
#endif
#define TOML_ASSERT(expr) ((expr) ? static_cast<void>(0) : ::dl::toml_assertion_failed())
// toml++ returns errors as values. The bound on nesting keeps the parser's recursion within the 1 MiB stacks that
// slurmctld gives its threads.
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 16
#include <toml++/toml.h>
#ifdef DL_TOML_NDEBUG
#define NDEBUG
#undef DL_TOML_NDEBUG
#endif

namespace dl {

// kInvalid "NAME:LINE: what is wrong". Throws only std::bad_alloc.
Result<toml::table> parse_toml(std::string_view text, const std::string& name);

}  // namespace dl
