// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/registry.h"

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/names.h"
#include "launcher/common/parse.h"

namespace dl::ckpt {
namespace {

Error invalid(const std::string& path, const std::string& what) {
  return Error{Errc::kInvalid, "tensor '" + printable(path) + "': " + what};
}

}  // namespace

Status Registry::add_tensor(const char* path_text, int dtype, int ndim, const int64_t* shape, const int64_t* offset,
                            const int64_t* extent, void* data, unsigned flags) {
  if (!path_text) return Error{Errc::kInvalid, "the tensor's name is NULL"};
  const std::string path = path_text;
  DL_TRY(check_path(path));
  RegisteredTensor tensor;
  tensor.dtype = find_dtype(dtype);
  if (!tensor.dtype) return invalid(path, "unknown dtype " + std::to_string(dtype));
  if (ndim < 0 || ndim > DLCKPT_MAX_DIMS)
    return invalid(path, std::to_string(ndim) + " dimensions; allowed: 0 to " + std::to_string(DLCKPT_MAX_DIMS));
  if (ndim > 0 && !shape) return invalid(path, "its shape is NULL");
  if ((flags & ~static_cast<unsigned>(DLCKPT_REPLICATED | DLCKPT_OPTIONAL)) != 0)
    return invalid(path, "unknown flags " + std::to_string(flags));
  tensor.replicated = (flags & DLCKPT_REPLICATED) != 0;
  tensor.optional = (flags & DLCKPT_OPTIONAL) != 0;
  if (ndim > 0) tensor.shape.assign(shape, shape + ndim);
  const auto elements = volume(tensor.shape);
  if (!elements || *elements > kMaxBytes / tensor.dtype->size)
    return invalid(path, "its shape " + describe(tensor.shape) + " has a negative size or is too large");
  if ((offset == nullptr) != (extent == nullptr)) return invalid(path, "offset and extent go together");
  if (tensor.replicated && offset) return invalid(path, "a replicated tensor has no offset and extent");
  tensor.box = whole(tensor.shape);
  if (offset && ndim > 0) {
    tensor.box.offset.assign(offset, offset + ndim);
    tensor.box.extent.assign(extent, extent + ndim);
    if (!within(tensor.box, tensor.shape))
      return invalid(path, "its part (offset " + describe(tensor.box.offset) + ", extent " +
                               describe(tensor.box.extent) + ") is not within its shape " + describe(tensor.shape));
  }
  if (!data && tensor.bytes() > 0) return invalid(path, "its data is NULL");
  tensor.data = static_cast<unsigned char*>(data);
  blobs_.erase(path);
  tensors_[path] = std::move(tensor);
  return {};
}

Status Registry::add_blob(const char* path_text, const void* data, size_t size, bool per_rank) {
  if (!path_text) return Error{Errc::kInvalid, "the blob's name is NULL"};
  const std::string path = path_text;
  DL_TRY(check_path(path));
  if (size > kMaxBlobBytes)
    return Error{Errc::kInvalid, "blob '" + printable(path) + "': " + std::to_string(size) + " bytes; at most 1 GiB"};
  if (!data && size > 0) return Error{Errc::kInvalid, "blob '" + printable(path) + "': its data is NULL"};
  RegisteredBlob blob;
  if (size > 0) blob.bytes.assign(static_cast<const char*>(data), size);
  blob.per_rank = per_rank;
  tensors_.erase(path);
  blobs_[path] = std::move(blob);
  return {};
}

Status Registry::remove(const char* path) {
  if (!path || (tensors_.erase(path) == 0 && blobs_.erase(path) == 0))
    return Error{Errc::kNotFound, "nothing is registered as '" + printable(path ? path : "NULL") + "'"};
  return {};
}

Hash128 Registry::fingerprint() const {
  std::string text;
  for (const auto& [path, tensor] : tensors_)
    text += path + "\n" + tensor.dtype->name + describe(tensor.shape) + (tensor.replicated ? "r\n" : "s\n");
  return hash_bytes(text.data(), text.size());
}

}  // namespace dl::ckpt
