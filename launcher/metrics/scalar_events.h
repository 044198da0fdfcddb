// SPDX-License-Identifier: Apache-2.0
// Writes scalars as an event file of TensorBoard: records (tf_record.h) of Protocol Buffers' messages, with
// simple_value, as PyTorch writes it. event_message.h reads them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dl::metrics {

// The record with which a file begins: the version of its format.
std::string events_begin(int64_t time_ms);

// The record of one scalar. The format has single precision: finite values beyond it become its largest.
std::string scalar_event(int64_t time_ms, int64_t step, std::string_view tag, double value);

}  // namespace dl::metrics
