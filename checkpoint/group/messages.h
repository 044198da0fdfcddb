// SPDX-License-Identifier: Apache-2.0
// The messages between ranks in saves and restores, as JSON texts.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/store/out_of_memory.h"
#include "common/base/result.h"

namespace dl::ckpt {

// A message with either a result or an error. Texts of other ranks may be malformed and are checked.
std::string say_ok(const std::string& text = "");
std::string say_error(const Error& error);
Result<std::string> hear(const std::string& message);

// What one rank wrote.
struct Part {
  std::vector<FileRecord> files;      // by part; records below name them by index
  std::vector<TensorRecord> tensors;  // with the pieces this rank wrote; rank 0 names all tensors
  std::vector<BlobRecord> blobs;
  std::vector<MemberRecord> members;
  std::string fingerprint;  // of what is registered
  size_t tensor_count = 0;  // registered
};
std::string format_part(const Part& part);
Result<Part> parse_part(const std::string& text);

// The parts of all ranks as one manifest, checked: pieces of a tensor must not overlap nor leave a hole. `manifest`
// comes with name, world size and so on filled in. kInvalid names rank or tensor.
Status merge_parts(std::vector<Part> parts, Manifest* manifest);

// The results in several ranks' messages; if any of them is an error, the first one, with the rank in front ("rank 3:
// ...").
Result<std::vector<std::string>> hear_all(const std::vector<std::string>& messages);

}  // namespace dl::ckpt
