// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/dtype.h"

namespace dl::ckpt {
namespace {

constexpr DtypeInfo kDtypes[] = {
    {DLCKPT_F64, "float64", 8},
    {DLCKPT_F32, "float32", 4},
    {DLCKPT_F16, "float16", 2},
    {DLCKPT_BF16, "bfloat16", 2},
    {DLCKPT_F8E4M3, "float8_e4m3fn", 1},
    {DLCKPT_F8E5M2, "float8_e5m2", 1},
    {DLCKPT_I64, "int64", 8},
    {DLCKPT_I32, "int32", 4},
    {DLCKPT_I16, "int16", 2},
    {DLCKPT_I8, "int8", 1},
    {DLCKPT_U64, "uint64", 8},
    {DLCKPT_U32, "uint32", 4},
    {DLCKPT_U16, "uint16", 2},
    {DLCKPT_U8, "uint8", 1},
    {DLCKPT_BOOL, "bool", 1},
    {DLCKPT_C64, "complex64", 8},
    {DLCKPT_C128, "complex128", 16},
};

}  // namespace

const DtypeInfo* find_dtype(int id) noexcept {
  for (const DtypeInfo& row : kDtypes)
    if (row.id == id) return &row;
  return nullptr;
}

const DtypeInfo* find_dtype(std::string_view name) noexcept {
  for (const DtypeInfo& row : kDtypes)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace dl::ckpt
