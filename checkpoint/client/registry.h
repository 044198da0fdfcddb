// SPDX-License-Identifier: Apache-2.0
// The registered state: all that a program has registered to be saved and restored.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
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
  unsigned char* data = nullptr;  // borrowed; points to the box's first element; nullptr if the box is empty
  MemoryPlace place;              // the memory to which data points
};

// The properties that many tensors of a program share.
struct TensorKind {
  const DtypeInfo* dtype = nullptr;
  Dims shape;
  bool replicated = false;
  bool boxed = false;  // registered with offset and extent
  bool optional = false;
  bool frozen = false;
  friend bool operator==(const TensorKind& a, const TensorKind& b) {
    return a.dtype == b.dtype && a.shape == b.shape && a.replicated == b.replicated && a.boxed == b.boxed &&
           a.optional == b.optional && a.frozen == b.frozen;
  }
};

using SharedKind = std::shared_ptr<const TensorKind>;

// A registered tensor. Programs may have a million of them; most are small, whole and dense, and take 32 bytes each.
class RegisteredTensor {
 public:
  RegisteredTensor() = default;
  // `first` is the first of its parts.
  RegisteredTensor(SharedKind kind, RegisteredPart first);

  const TensorKind& kind() const { return *kind_; }
  const DtypeInfo* dtype() const { return kind_->dtype; }
  const Dims& shape() const { return kind_->shape; }
  bool replicated() const { return kind_->replicated; }
  bool boxed() const { return kind_->boxed; }
  // The parts that this rank holds; exactly one unless DLCKPT_ANOTHER_PART was used.
  std::vector<RegisteredPart> parts() const;
  void add(RegisteredPart part);
  // The tensor's first byte if its only part is the whole tensor, dense and in host memory; otherwise nullptr.
  const unsigned char* plain() const { return parts_ ? nullptr : data_; }
  uint64_t bytes(const RegisteredPart& part) const { return volume(part.box.extent).value_or(0) * dtype()->size; }
  uint64_t bytes() const;  // bytes of all parts
  // Bytes of the whole tensor, whichever ranks hold it.
  uint64_t whole_bytes() const { return volume(shape()).value_or(0) * dtype()->size; }

 private:
  SharedKind kind_;
  unsigned char* data_ = nullptr;
  std::unique_ptr<std::vector<RegisteredPart>> parts_;  // nullptr if plain() is set
};

struct RegisteredBlob {
  std::string bytes;
  bool per_rank = false;
};

// A file that the program writes itself.
struct RegisteredMember {
  std::string path;  // path of the file
  bool per_rank = false;
};

class Registry {
 public:
  // kInvalid; see dlckpt_tensor_strided and dlckpt_blob. If stride_bytes is nullptr, the elements are in C order
  // without gaps. For tensors also the errors of place_of().
  Status add_tensor(const char* path, int dtype, int ndim, const int64_t* shape, const int64_t* offset,
                    const int64_t* extent, void* data, unsigned flags, const int64_t* stride_bytes = nullptr);
  Status add_blob(const char* path, const void* data, size_t size, bool per_rank);
  Status add_member(const char* name, const char* path, bool per_rank);
  // kNotFound if nothing is registered under this path.
  Status remove(const char* path);

  // Sorted by path; the order is the same on all ranks.
  const std::map<std::string, RegisteredTensor>& tensors() const { return tensors_; }
  // A number that changes whenever tensors() may have changed.
  uint64_t tensors_version() const { return tensors_version_; }
  const std::map<std::string, RegisteredBlob>& blobs() const { return blobs_; }
  const std::map<std::string, RegisteredMember>& members() const { return members_; }
  // A hash that is the same on all ranks that registered the same tensors (names, dtypes, shapes, replicated or not,
  // with boxes or not).
  Hash128 fingerprint() const;
  // Whether a save must know which ranks hold which boxes (client/holders.h). It is the same on all ranks with the same
  // fingerprint.
  bool needs_holders() const;

 private:
  Status add_part(const std::string& path, const TensorKind& kind, RegisteredPart part);
  SharedKind shared_kind(TensorKind kind);
  void forget_tensor(const std::string& path);

  std::map<std::string, RegisteredTensor> tensors_;
  std::array<SharedKind, 256> kinds_;  // some of the kinds that tensors have, by hash
  uint64_t tensors_version_ = 0;
  std::map<std::string, RegisteredBlob> blobs_;
  std::map<std::string, RegisteredMember> members_;
};

}  // namespace dl::ckpt
