// SPDX-License-Identifier: Apache-2.0
// What a program registered to be saved and restored.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/device/device_memory.h"
#include "checkpoint/format/box.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/format/hash.h"
#include "common/base/result.h"

namespace dl::ckpt {

// A box of a tensor in this rank's memory.
struct RegisteredPart {
  Box box;
  Dims strides;                   // bytes between elements of each dimension
  bool dense = true;              // elements lie together in C order
  unsigned char* data = nullptr;  // borrowed; the box's first element; nullptr if the box is empty
  MemoryPlace place;              // of data
};

struct RegisteredTensor {
  const DtypeInfo* dtype = nullptr;
  Dims shape;
  bool replicated = false;
  bool boxed = false;  // registered with offset and extent
  bool optional = false;
  bool frozen = false;
  std::vector<RegisteredPart> parts;  // this rank's; one, unless DLCKPT_ANOTHER_PART was used
  uint64_t bytes(const RegisteredPart& part) const { return volume(part.box.extent).value_or(0) * dtype->size; }
  uint64_t bytes() const;  // of all parts
};

struct RegisteredBlob {
  std::string bytes;
  bool per_rank = false;
};

// A file that the program writes itself.
struct RegisteredMember {
  std::string path;  // of the file
  bool per_rank = false;
};

class Registry {
 public:
  // kInvalid; see dlckpt_tensor_strided and dlckpt_blob. stride_bytes nullptr: C order without gaps. Tensors also give
  // what place_of() does.
  Status add_tensor(const char* path, int dtype, int ndim, const int64_t* shape, const int64_t* offset,
                    const int64_t* extent, void* data, unsigned flags, const int64_t* stride_bytes = nullptr);
  Status add_blob(const char* path, const void* data, size_t size, bool per_rank);
  Status add_member(const char* name, const char* path, bool per_rank);
  // kNotFound.
  Status remove(const char* path);

  // Sorted by path, the same on all ranks.
  const std::map<std::string, RegisteredTensor>& tensors() const { return tensors_; }
  // Another one whenever tensors() may have changed.
  uint64_t tensors_version() const { return tensors_version_; }
  const std::map<std::string, RegisteredBlob>& blobs() const { return blobs_; }
  const std::map<std::string, RegisteredMember>& members() const { return members_; }
  // The same on all ranks that registered the same tensors (names, dtypes, shapes, replicated or not, with boxes or
  // not).
  Hash128 fingerprint() const;
  // Whether a save must know who holds which box (client/holders.h); the same on all ranks of the same fingerprint.
  bool needs_holders() const;

 private:
  Status add_part(const std::string& path, RegisteredTensor tensor, RegisteredPart part);
  void forget_tensor(const std::string& path);

  std::map<std::string, RegisteredTensor> tensors_;
  uint64_t tensors_version_ = 0;
  std::map<std::string, RegisteredBlob> blobs_;
  std::map<std::string, RegisteredMember> members_;
};

}  // namespace dl::ckpt
