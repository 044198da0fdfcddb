// SPDX-License-Identifier: Apache-2.0
// The element types of dlckpt.h, with name and size, in one table.
#pragma once

#include <cstddef>
#include <string_view>

#include "checkpoint/include/dlckpt.h"

namespace dl::ckpt {

struct DtypeInfo {
  dlckpt_dtype id;
  const char* name;  // NumPy's (and ml_dtypes') name; also the value of the HDF5 attribute "dtype"
  size_t size;       // bytes of one element
};

// nullptr if unknown. The returned row is static.
const DtypeInfo* find_dtype(int id) noexcept;
const DtypeInfo* find_dtype(std::string_view name) noexcept;

}  // namespace dl::ckpt
