// SPDX-License-Identifier: Apache-2.0
// Boxes in messages between ranks, as text: numbers separated by blanks, on one line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/client/registry.h"

namespace dl::ckpt {

// "offsets extents" for each part; nothing for a scalar.
std::string format_boxes(const RegisteredTensor& tensor);
// kInternal if the line is no list of boxes within the shape.
Result<std::vector<Box>> parse_boxes(std::string_view line, const Dims& shape);

// Joins several texts into one; equal texts are stored once.
std::string join_texts(const std::vector<std::string>& texts);
Result<std::vector<std::string>> split_texts(std::string_view joined);

}  // namespace dl::ckpt
