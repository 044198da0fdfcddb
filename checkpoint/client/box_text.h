// SPDX-License-Identifier: Apache-2.0
// How ranks tell one another of boxes: numbers with blanks between, on one line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/client/registry.h"

namespace dl::ckpt {

// "offsets extents" of each part; a scalar's is empty.
std::string format_boxes(const RegisteredTensor& tensor);
// kInternal unless they are boxes within the shape.
Result<std::vector<Box>> parse_boxes(std::string_view line, const Dims& shape);

// Several texts as one; texts that are there already are not repeated.
std::string join_texts(const std::vector<std::string>& texts);
Result<std::vector<std::string>> split_texts(std::string_view joined);

}  // namespace dl::ckpt
