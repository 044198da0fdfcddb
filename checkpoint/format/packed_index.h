// SPDX-License-Identifier: Apache-2.0
// The index of packed tensors, which a data file does not hold as datasets of their own. Where thousands of small
// tensors are registered, each rank stores the bytes of its share one after another in the dataset
// /_dlckpt/packed/data, and in
// /_dlckpt/packed/index a line for each, sorted by name:
//
//     model/layers.0.bias<TAB>float32<TAB>4,3<TAB>1024<TAB>replicated
//
// name, dtype, shape (nothing for a scalar), offset of the first byte in the data, and whether all ranks hold it
// ("replicated" or "whole"). MANIFEST.json does not contain the index but only says where it is: for a million tensors
// it has a hundred megabytes, which nobody should have to read for a question about the checkpoint as a whole.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/manifest.h"

namespace dl::ckpt {

// Appends the line for a tensor whose first byte is `at` bytes into the data.
void append_packed_line(std::string_view path, const DtypeInfo& dtype, const Dims& shape, bool replicated, uint64_t at,
                        std::string* index);

// Appends the tensors of an index to `tensors`, each as one part of file `file`, whose data lies at packed.data. The
// text is treated as hostile: names, order, places and the number of lines are checked. kCorrupt.
Status parse_packed_index(std::string_view index, const PackedRecord& packed, size_t file,
                          std::vector<TensorRecord>* tensors);

}  // namespace dl::ckpt
