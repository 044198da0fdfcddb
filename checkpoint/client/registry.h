// SPDX-License-Identifier: Apache-2.0
// What a program registered to be saved and restored.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "checkpoint/format/box.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/format/hash.h"
#include "launcher/common/result.h"

namespace dl::ckpt {

struct RegisteredTensor {
  const DtypeInfo* dtype = nullptr;
  Dims shape;
  Box box;  // this rank's part
  bool replicated = false;
  bool optional = false;
  unsigned char* data = nullptr;  // borrowed; the box in C order
  uint64_t bytes() const { return volume(box.extent).value_or(0) * dtype->size; }
};

struct RegisteredBlob {
  std::string bytes;
  bool per_rank = false;
};

class Registry {
 public:
  // kInvalid; see dlckpt_tensor and dlckpt_blob.
  Status add_tensor(const char* path, int dtype, int ndim, const int64_t* shape, const int64_t* offset,
                    const int64_t* extent, void* data, unsigned flags);
  Status add_blob(const char* path, const void* data, size_t size, bool per_rank);
  // kNotFound.
  Status remove(const char* path);

  // Sorted by path, the same on all ranks.
  const std::map<std::string, RegisteredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, RegisteredBlob>& blobs() const { return blobs_; }
  // The same on all ranks that registered the same tensors (names, dtypes, shapes, replicated or not).
  Hash128 fingerprint() const;

 private:
  std::map<std::string, RegisteredTensor> tensors_;
  std::map<std::string, RegisteredBlob> blobs_;
};

}  // namespace dl::ckpt
