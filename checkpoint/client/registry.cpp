// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/registry.h"

#include "checkpoint/device/strided.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/names.h"
#include "checkpoint/store/directory.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

constexpr unsigned kKnownFlags = DLCKPT_REPLICATED | DLCKPT_OPTIONAL | DLCKPT_FROZEN | DLCKPT_ANOTHER_PART;

Error invalid(const std::string& path, const std::string& what) {
  return Error{Errc::kInvalid, "tensor '" + printable(path) + "': " + what};
}

// All elements must lie within addressable memory, so that sums of offsets do not overflow.
Status check_strides(const std::string& path, const Dims& extent, const int64_t* strides) {
  uint64_t reach = 0;
  for (size_t d = 0; d < extent.size(); ++d) {
    const uint64_t stride = strides[d] < 0 ? 0 - static_cast<uint64_t>(strides[d]) : static_cast<uint64_t>(strides[d]);
    uint64_t far = 0;
    if (__builtin_mul_overflow(stride, static_cast<uint64_t>(extent[d] - 1), &far) || far > kMaxBytes - reach)
      return invalid(path, "the stride of dimension " + std::to_string(d) + ", " + std::to_string(strides[d]) +
                               " bytes, is too large");
    reach += far;
  }
  return {};
}

}  // namespace

RegisteredTensor::RegisteredTensor(SharedKind kind, RegisteredPart first) : kind_(std::move(kind)), data_(first.data) {
  if (first.data && first.dense && first.place.on_host() && first.box == whole(shape())) return;
  parts_ = std::make_unique<std::vector<RegisteredPart>>();
  parts_->push_back(std::move(first));
}

std::vector<RegisteredPart> RegisteredTensor::parts() const {
  if (parts_) return *parts_;
  RegisteredPart part;
  part.box = whole(shape());
  part.strides = dense_strides(shape(), dtype()->size);
  part.data = data_;
  return {std::move(part)};
}

void RegisteredTensor::add(RegisteredPart part) {
  if (!parts_) parts_ = std::make_unique<std::vector<RegisteredPart>>(parts());
  parts_->push_back(std::move(part));
}

uint64_t RegisteredTensor::bytes() const {
  if (!parts_) return whole_bytes();
  uint64_t total = 0;
  for (const RegisteredPart& part : *parts_) total += bytes(part);
  return total;
}

// Shares equal kinds between tensors. The table has a fixed size: a kind that replaces another one there does not
// affect tensors that use the former.
SharedKind Registry::shared_kind(TensorKind kind) {
  size_t hash = static_cast<size_t>(kind.dtype->id) * 4 + (kind.replicated ? 2 : 0) + (kind.boxed ? 1 : 0);
  for (const int64_t size : kind.shape) hash = hash * 31 + static_cast<size_t>(size);
  auto& known = kinds_[hash % kinds_.size()];
  if (!known || !(*known == kind)) known = std::make_shared<const TensorKind>(std::move(kind));
  return known;
}

Status Registry::add_tensor(const char* path_text, int dtype, int ndim, const int64_t* shape, const int64_t* offset,
                            const int64_t* extent, void* data, unsigned flags, const int64_t* stride_bytes) {
  if (!path_text) return Error{Errc::kInvalid, "the tensor's path is NULL; allowed: a text like model/layers.0.weight"};
  const std::string path = path_text;
  DL_TRY(check_path(path));
  TensorKind tensor;
  tensor.dtype = find_dtype(dtype);
  if (!tensor.dtype)
    return invalid(path, "the dtype " + std::to_string(dtype) + " is unknown; allowed: a DLCKPT_... of dlckpt_dtype");
  if (ndim < 0 || ndim > DLCKPT_MAX_DIMS)
    return invalid(path, std::to_string(ndim) + " dimensions; allowed: 0 to " + std::to_string(DLCKPT_MAX_DIMS));
  if (ndim > 0 && !shape)
    return invalid(path,
                   "its shape is NULL; allowed: one number for each of the " + std::to_string(ndim) + " dimensions");
  if ((flags & ~kKnownFlags) != 0)
    return invalid(path,
                   "the flags " + std::to_string(flags) + " are unknown in part; allowed: those of dlckpt_tensor");
  tensor.replicated = (flags & DLCKPT_REPLICATED) != 0;
  tensor.optional = (flags & DLCKPT_OPTIONAL) != 0;
  tensor.frozen = (flags & DLCKPT_FROZEN) != 0;
  if (ndim > 0) tensor.shape.assign(shape, shape + ndim);
  const auto elements = volume(tensor.shape);
  if (!elements || *elements > kMaxBytes / tensor.dtype->size)
    return invalid(path, "its shape " + describe(tensor.shape) + " has a negative size or is too large");
  if ((offset == nullptr) != (extent == nullptr))
    return invalid(path, "one of offset and extent is NULL; allowed: both given, or neither");
  tensor.boxed = offset != nullptr;
  RegisteredPart part;
  part.box = whole(tensor.shape);
  if (offset && ndim > 0) {
    part.box.offset.assign(offset, offset + ndim);
    part.box.extent.assign(extent, extent + ndim);
    if (!within(part.box, tensor.shape))
      return invalid(path, "its part (offset " + describe(part.box.offset) + ", extent " + describe(part.box.extent) +
                               ") is not within its shape " + describe(tensor.shape));
  }
  const uint64_t bytes = volume(part.box.extent).value_or(0) * tensor.dtype->size;
  if (!data && bytes > 0)
    return invalid(path, "its data is NULL; allowed: memory of " + std::to_string(bytes) + " bytes");
  part.data = bytes > 0 ? static_cast<unsigned char*>(data) : nullptr;
  auto place = place_of(part.data);
  if (!place) return std::move(place).error().with_context("tensor '" + printable(path) + "'");
  part.place = *place;
  part.strides = dense_strides(part.box.extent, tensor.dtype->size);
  if (stride_bytes && bytes > 0) {
    DL_TRY(check_strides(path, part.box.extent, stride_bytes));
    part.strides.assign(stride_bytes, stride_bytes + ndim);
    part.dense = is_dense(part.box.extent, part.strides, tensor.dtype->size);
    if (part.dense) part.strides = dense_strides(part.box.extent, tensor.dtype->size);
  }
  if ((flags & DLCKPT_ANOTHER_PART) != 0) return add_part(path, tensor, std::move(part));
  blobs_.erase(path);
  members_.erase(path);
  tensors_[path] = RegisteredTensor(shared_kind(std::move(tensor)), std::move(part));
  ++tensors_version_;
  return {};
}

void Registry::forget_tensor(const std::string& path) {
  if (tensors_.erase(path) > 0) ++tensors_version_;
}

// Adds another box to a tensor that is registered already.
Status Registry::add_part(const std::string& path, const TensorKind& tensor, RegisteredPart part) {
  const auto at = tensors_.find(path);
  if (at == tensors_.end())
    return invalid(path,
                   "DLCKPT_ANOTHER_PART is given, but no part of the tensor is registered yet; allowed: the first part "
                   "without this flag");
  const TensorKind& known = at->second.kind();
  if (known.dtype != tensor.dtype || known.shape != tensor.shape)
    return invalid(path, std::string("another part of ") + known.dtype->name + describe(known.shape) + " cannot be " +
                             tensor.dtype->name + describe(tensor.shape));
  if (known.replicated != tensor.replicated || known.boxed != tensor.boxed || known.optional != tensor.optional)
    return invalid(path, "all its parts must have the same flags, and offset and extent");
  if (!tensor.boxed) return invalid(path, "DLCKPT_ANOTHER_PART is given without offset and extent; allowed: with both");
  for (const RegisteredPart& other : at->second.parts())
    if (intersect(other.box, part.box))
      return invalid(path, "its parts " + describe(other.box) + " and " + describe(part.box) + " overlap");
  at->second.add(std::move(part));
  ++tensors_version_;
  return {};
}

Status Registry::add_blob(const char* path_text, const void* data, size_t size, bool per_rank) {
  if (!path_text) return Error{Errc::kInvalid, "the blob's path is NULL; allowed: a text like data/cursor"};
  const std::string path = path_text;
  DL_TRY(check_path(path));
  if (size > kMaxBlobBytes)
    return Error{Errc::kInvalid, "blob '" + printable(path) + "': " + std::to_string(size) +
                                     " bytes are too many; allowed: at most 1 GiB"};
  if (!data && size > 0)
    return Error{Errc::kInvalid, "blob '" + printable(path) + "': its data is NULL; allowed: memory of " +
                                     std::to_string(size) + " bytes"};
  if (size > 0) {
    DL_TRY_ASSIGN(const MemoryPlace place, place_of(data));
    if (!place.on_host())
      return Error{Errc::kInvalid, "blob '" + printable(path) + "': its data is in memory of GPU " +
                                       std::to_string(place.device) + "; allowed: host memory"};
  }
  RegisteredBlob blob;
  if (size > 0) blob.bytes.assign(static_cast<const char*>(data), size);
  blob.per_rank = per_rank;
  forget_tensor(path);
  members_.erase(path);
  blobs_[path] = std::move(blob);
  return {};
}

Status Registry::add_member(const char* name_text, const char* path, bool per_rank) {
  if (!name_text) return Error{Errc::kInvalid, "the member's name is NULL; allowed: a text like optimizer/state"};
  const std::string name = name_text;
  DL_TRY(check_path(name));
  if (!path || !*path || std::string_view(path).size() > 3500)
    return Error{Errc::kInvalid,
                 "member '" + printable(name) +
                     "': the path of its file is empty, or longer than 3500 bytes; allowed: 1 to 3500 bytes"};
  if (members_.size() >= kMaxMembers && members_.count(name) == 0)
    return Error{Errc::kInvalid,
                 "this rank has registered " + std::to_string(kMaxMembers) + " members; allowed: no more than that"};
  forget_tensor(name);
  blobs_.erase(name);
  members_[name] = RegisteredMember{from_root(path), per_rank};
  return {};
}

Status Registry::remove(const char* path) {
  const uint64_t before = tensors_version_;
  if (path) forget_tensor(path);
  if (tensors_version_ != before) return {};
  if (!path || (blobs_.erase(path) == 0 && members_.erase(path) == 0))
    return Error{Errc::kNotFound, "nothing is registered as '" + printable(path ? path : "NULL") + "'"};
  return {};
}

Hash128 Registry::fingerprint() const {
  Hasher hasher;
  std::string text;
  for (const auto& [path, tensor] : tensors_) {
    text += path + "\n" + tensor.dtype()->name + describe(tensor.shape()) + (tensor.replicated() ? "r" : "s") +
            (tensor.replicated() && tensor.boxed() ? "b\n" : "\n");
    if (text.size() < 65536) continue;
    hasher.update(text.data(), text.size());
    text.clear();
  }
  hasher.update(text.data(), text.size());
  return hasher.digest();
}

bool Registry::needs_holders() const {
  for (const auto& [path, tensor] : tensors_)
    if (tensor.replicated() && tensor.boxed()) return true;
  return false;
}

}  // namespace dl::ckpt
