// SPDX-License-Identifier: Apache-2.0
// Headers that nearly all unit tests include, parsed once for all of them: what common/precompiled.h is for other
// code.
#ifndef DL_TESTS_LIB_PRECOMPILED_H  // GCC warns of #pragma once in a header that it precompiles
#define DL_TESTS_LIB_PRECOMPILED_H

#include <gtest/gtest.h>

#include "common/precompiled.h"

#endif
