// SPDX-License-Identifier: Apache-2.0
// The tensors that dlckpt.attach() does not store as tensors: scalars that one learner alone holds, such as the counter
// among the buffers of a batch normalisation. Their values lie in its record, a blob of JSON (codec.py says its form).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/box.h"
#include "checkpoint/format/dtype.h"
#include "common/base/result.h"

namespace dl::ckpt {

constexpr const char* kPythonRecord = "dlckpt.python/state.json";  // the blob's path

struct RecordedTensor {
  std::string path;  // as attach() names tensors: "model/norm.num_batches_tracked"
  const DtypeInfo* dtype = nullptr;
  Dims shape;
  std::string bytes;  // its elements in C order, little-endian
};

// In the order of the record. kCorrupt if it is no record of attach(), or of a form that no version so far has written.
Result<std::vector<RecordedTensor>> recorded_tensors(std::string_view record);

}  // namespace dl::ckpt
