// SPDX-License-Identifier: Apache-2.0
// Element types: their sizes, and the arithmetic that MPI lacks (half precision) or that follows an operation (the
// mean).
#pragma once

#include <cstddef>
#include <cstdint>

#include "launcher/collectives/include/dllearner.h"

namespace dl::learner {

// Bytes of one element; 0 for a value that is none of dllearner_dtype.
size_t element_size(int dtype);
bool is_floating(int dtype);
bool is_op(int op);

// IEEE 754 half and bfloat16, as their bits. Conversion to float is exact; from float it rounds to nearest, ties to
// even. NaNs stay NaNs.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat_to_float(uint16_t bits);
uint16_t float_to_bfloat(float value);

// inout[i] = in[i] (op) inout[i] for SUM, MAX and MIN. The bits do not depend on which operand is which, so that
// ranks that combine the same two values in another order agree (a NaN wins; of two zeros MAX takes +0 and MIN takes
// -0).
void reduce_elements(int dtype, int op, const void* in, void* inout, size_t count);
// data[i] /= divisor. For floating-point dtypes.
void divide_elements(int dtype, void* data, size_t count, int divisor);

}  // namespace dl::learner
