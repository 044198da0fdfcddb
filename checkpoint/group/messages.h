// SPDX-License-Identifier: Apache-2.0
// The messages between ranks in saves and restores, as JSON texts.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/store/out_of_memory.h"
#include "common/base/result.h"

namespace dl::ckpt {

// A message that has either a result or an error. Messages of other ranks are checked, since they may be malformed.
std::string say_ok(const std::string& text = "");
std::string say_error(const Error& error);
Result<std::string> hear(const std::string& message);

// The report of one rank on what it wrote.
struct Part {
  std::vector<FileRecord> files;      // sorted by part; the records below refer to them by index
  std::vector<TensorRecord> tensors;  // with the pieces that this rank wrote; rank 0 lists all tensors
  std::vector<BlobRecord> blobs;
  std::vector<MemberRecord> members;
  std::string fingerprint;  // Registry::fingerprint()
  size_t tensor_count = 0;  // number of registered tensors
};
std::string format_part(const Part& part);
Result<Part> parse_part(const std::string& text);

// Merges the parts of all ranks into one manifest and checks it: the pieces of a tensor must not overlap nor leave a
// hole. The caller has set name, world size and so on in `manifest`. kInvalid names the rank or the tensor.
Status merge_parts(std::vector<Part> parts, Manifest* manifest);

// The results in the messages of several ranks. If any of them is an error, the first one, with the rank in front
// ("rank 3: ...").
Result<std::vector<std::string>> hear_all(const std::vector<std::string>& messages);

}  // namespace dl::ckpt
