/* SPDX-License-Identifier: Apache-2.0
 *
 * dlckpt_read.hpp: dlckpt_read.h for C++17 and later: reading a checkpoint without owning its directory.
 *
 *     auto reader = dlckpt::Reader::open("/shared/run/ckpt");
 *     if (!reader) die(reader.message());
 *     auto w = reader->load<float>("model/embed.weight");
 *     if (!w) die(w.message());
 *     use(*w);
 *
 * Errors, moves and closing work as in dlckpt.hpp. dlckpt_read.h describes the functions, and what happens when the job
 * deletes a checkpoint that is being read. Only one thread at a time may use a Reader.
 */
#ifndef DLCKPT_READ_HPP
#define DLCKPT_READ_HPP

#include "dlckpt.hpp"
#include "dlckpt_read.h"

namespace dlckpt {

/* A tensor in a checkpoint. */
struct TensorInfo {
  std::string path;
  dlckpt_dtype dtype = DLCKPT_F32;
  Dims shape;
  std::uint64_t bytes = 0;
};

/* A checkpoint that is open for reading. Its directory may belong to a running job or to another user. */
class Reader {
 public:
  static Result<Reader> open(const std::string& dir, std::int64_t step = DLCKPT_LATEST) {
    if (detail::has_nul(dir)) return detail::nul_in("the directory's name");
    dlckpt_reader* reader = nullptr;
    if (const dlckpt_error code = dlckpt_reader_open(dir.c_str(), step, &reader); code != DLCKPT_OK)
      return Status(code, dlckpt_open_error());
    return {Reader(reader), Status(DLCKPT_OK, dlckpt_reader_errmsg(reader))};
  }
  void close() { reader_.reset(); }
  dlckpt_reader* get() const noexcept { return reader_.get(); }

  std::int64_t step() const noexcept { return dlckpt_reader_step(get()); }
  Status older() { return said(dlckpt_reader_older(get())); }
  /* The train steps of all checkpoints that are committed now, newest first. */
  Result<Dims> steps() {
    Dims found;
    for (std::size_t count = 0;;) {
      if (Status s = said(dlckpt_reader_steps(get(), found.data(), found.size(), &count)); !s) return s;
      const bool all = count <= found.size(); /* the job may have added some since it was asked how many */
      found.resize(count);
      if (all) return {std::move(found), Status()};
    }
  }
  std::size_t size() const noexcept { return dlckpt_reader_count(get()); }
  Result<TensorInfo> tensor(std::size_t index) {
    dlckpt_tensor_info info{};
    info.struct_size = sizeof info;
    const dlckpt_error code = dlckpt_reader_tensor(get(), index, &info);
    return described(code, info);
  }
  Result<TensorInfo> find(const std::string& path) {
    if (detail::has_nul(path)) return detail::nul_in("a path");
    dlckpt_tensor_info info{};
    info.struct_size = sizeof info;
    const dlckpt_error code = dlckpt_reader_find(get(), path.c_str(), &info);
    return described(code, info);
  }
  /* Loads a whole tensor. MISMATCH if its element type is not that of T. */
  template <typename T>
  Result<std::vector<T>> load(const std::string& path) {
    static_assert(!std::is_same_v<T, bool>, "the elements of std::vector<bool> have no addresses: use load_into");
    Result<TensorInfo> info = find(path);
    if (!info) return Status(info);
    if (info->dtype != Element<T>::value)
      return Status(DLCKPT_E_MISMATCH, path + " holds " + std::string(name_of(info->dtype)) + ", not " +
                                           std::string(name_of(Element<T>::value)));
    std::vector<T> values(static_cast<std::size_t>(info->bytes / sizeof(T)));
    if (Status s = load_into(path, values.data(), values.size() * sizeof(T)); !s) return s;
    return {std::move(values), Status()};
  }
  /* Loads the whole tensor, or the box [offset, offset + extent), into `data`, which has room for `bytes` bytes. */
  Status load_into(const std::string& path, void* data, std::size_t bytes, const Dims& offset = {},
                   const Dims& extent = {}) {
    Result<TensorInfo> info = find(path);
    if (!info) return info;
    if (Status s = detail::dimensions(path, info->shape.size(), "offset", offset); !s) return s;
    if (Status s = detail::dimensions(path, info->shape.size(), "extent", extent); !s) return s;
    return said(dlckpt_reader_load(get(), path.c_str(), detail::numbers(offset), detail::numbers(extent), data, bytes));
  }
  /* The blob of a rank, or with -1 the one that all ranks share. Valid until the next call of blob() or close(). */
  Result<std::string_view> blob(const std::string& path, int rank = -1) {
    if (detail::has_nul(path)) return detail::nul_in("a path");
    const void* data = nullptr;
    std::size_t size = 0;
    Status status = said(dlckpt_reader_blob(get(), path.c_str(), rank, &data, &size));
    if (!status) return status;
    return {std::string_view(static_cast<const char*>(data), size), std::move(status)};
  }

 private:
  struct Close {
    void operator()(dlckpt_reader* reader) const noexcept { dlckpt_reader_close(reader); }
  };
  explicit Reader(dlckpt_reader* reader) noexcept : reader_(reader) {}
  Status said(dlckpt_error code) const {
    if (!get()) return detail::refused("the reader was closed, or moved to another handle");
    return {code, dlckpt_reader_errmsg(get())};
  }
  Result<TensorInfo> described(dlckpt_error code, const dlckpt_tensor_info& info) const {
    Status status = said(code);
    if (!status) return status;
    TensorInfo all{info.path, info.dtype, {}, info.bytes};
    if (info.ndim > 0) all.shape.assign(info.shape, info.shape + info.ndim);
    return {std::move(all), std::move(status)};
  }
  std::unique_ptr<dlckpt_reader, Close> reader_;
};

}  // namespace dlckpt
#endif /* DLCKPT_READ_HPP */
