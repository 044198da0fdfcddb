// SPDX-License-Identifier: Apache-2.0
// The functions of dlckpt_read.h. They need no libhdf5.
#include "checkpoint/client/c_errors.h"
#include "checkpoint/client/one_thread.h"
#include "checkpoint/include/dlckpt_read.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/store/directory.h"
#include "common/base/parse.h"

struct dlckpt_reader {
  std::string dir;
  dl::ckpt::Reader reader;
  std::string message;
  std::vector<unsigned char> blob;
  mutable dl::ckpt::OneThread one_thread;  // whose turn it is; that thread alone uses the other members

  dlckpt_reader(std::string of, dl::ckpt::Reader opened, std::string note)
      : dir(std::move(of)), reader(std::move(opened)), message(std::move(note)) {}
};

namespace {

using dl::Errc;
using dl::Error;
using dl::Status;
using dl::ckpt::Box;
using dl::ckpt::Dims;
using dl::ckpt::TensorRecord;
using dl::ckpt::Turn;

template <typename Body>
dlckpt_error run(dlckpt_reader* reader, Body&& body) noexcept {
  if (!reader) return DLCKPT_E_INVALID;
  const Turn turn(&reader->one_thread);
  if (!turn) return DLCKPT_E_INVALID;
  return dl::ckpt::run(&reader->message, [&] { return body(*reader); });
}

Error no_tensor(const dlckpt_reader& reader, const char* path) {
  return Error{Errc::kNotFound, "the checkpoint of train step " + std::to_string(reader.reader.name().step) + " in " +
                                    reader.dir + " holds no tensor '" + dl::printable(path) + "'"};
}

Status fill(const TensorRecord& tensor, dlckpt_tensor_info* out) {
  if (!out || out->struct_size != sizeof *out)
    return Error{Errc::kInvalid,
                 "out is NULL, or out->struct_size is not sizeof(dlckpt_tensor_info), " + std::to_string(sizeof *out)};
  out->path = tensor.path.c_str();
  out->dtype = tensor.dtype->id;
  out->ndim = static_cast<int>(tensor.shape.size());
  out->shape = tensor.shape.data();
  out->bytes = tensor.bytes();
  return {};
}

Status load(dlckpt_reader& reader, const char* path, const int64_t* offset, const int64_t* extent, void* data,
            size_t size) {
  const TensorRecord* tensor = path ? reader.reader.manifest().find_tensor(path) : nullptr;
  if (!tensor) return no_tensor(reader, path ? path : "");
  if (!offset != !extent) return Error{Errc::kInvalid, "offset and extent must be given both, or neither"};
  Box box = dl::ckpt::whole(tensor->shape);
  if (offset) box = Box{Dims(offset, offset + tensor->shape.size()), Dims(extent, extent + tensor->shape.size())};
  if (!dl::ckpt::within(box, tensor->shape))
    return Error{Errc::kInvalid, "tensor '" + dl::printable(tensor->path) + "' has the shape " +
                                     dl::ckpt::describe(tensor->shape) + "; " + dl::ckpt::describe(box) +
                                     " does not lie in it"};
  const uint64_t bytes = dl::ckpt::volume(box.extent).value_or(0) * tensor->dtype->size;
  if (size != bytes)
    return Error{Errc::kInvalid, "size is " + std::to_string(size) + ", but these elements of tensor '" +
                                     dl::printable(tensor->path) + "' take " + std::to_string(bytes) + " bytes"};
  if (bytes == 0) return {};
  if (!data) return Error{Errc::kInvalid, "data is NULL; allowed: memory of " + std::to_string(bytes) + " bytes"};
  return reader.reader.load(*tensor, box, data);
}

}  // namespace

extern "C" {

dlckpt_error dlckpt_reader_open(const char* dir, int64_t step, dlckpt_reader** out) {
  if (!out) return DLCKPT_E_INVALID;
  *out = nullptr;
  return dl::ckpt::run(dl::ckpt::open_message(), [&]() -> Status {
    if (!dir || !*dir) return Error{Errc::kInvalid, "dir is NULL or empty; allowed: a checkpoint directory"};
    if (step != DLCKPT_LATEST && (step < 0 || step > dl::ckpt::kMaxStep))
      return Error{Errc::kInvalid, std::to_string(step) + " is no train step; allowed: 0 to " +
                                       std::to_string(dl::ckpt::kMaxStep) + ", or DLCKPT_LATEST"};
    DL_TRY(dl::ckpt::refuse_checkpoint(dir));
    const std::string path = dl::ckpt::from_root(dir);
    DL_TRY_ASSIGN(
        dl::ckpt::Reader reader,
        dl::ckpt::Reader::open(dl::ckpt::posix_io(), path, step == DLCKPT_LATEST ? std::nullopt : std::optional(step)));
    std::string note = dl::join(reader.passed_over(), "; ");
    *out = new dlckpt_reader(path, std::move(reader), std::move(note));
    return {};
  });
}

void dlckpt_reader_close(dlckpt_reader* reader) {
  if (!reader) return;
  if (const Turn turn(&reader->one_thread); !turn) return;
  dl::guard(
      0, [](const char*) {},
      [&] {
        delete reader;
        return 0;
      });
}

int64_t dlckpt_reader_step(const dlckpt_reader* reader) {
  if (!reader) return -1;
  const Turn turn(&reader->one_thread);
  return turn ? reader->reader.name().step : -1;
}

dlckpt_error dlckpt_reader_older(dlckpt_reader* reader) {
  return run(reader, [](dlckpt_reader& r) -> Status {
    DL_TRY(r.reader.older());
    r.message = dl::join(r.reader.passed_over(), "; ");
    return {};
  });
}

dlckpt_error dlckpt_reader_steps(dlckpt_reader* reader, int64_t* steps, size_t capacity, size_t* count) {
  return run(reader, [&](dlckpt_reader& r) -> Status {
    if (!count || (!steps && capacity > 0)) return Error{Errc::kInvalid, "steps or count is NULL; allowed: both given"};
    DL_TRY_ASSIGN(const auto names, dl::ckpt::scan_checkpoints(dl::ckpt::posix_io(), r.dir));
    for (size_t i = 0; i < names.size() && i < capacity; ++i) steps[i] = names[i].step;
    *count = names.size();
    return {};
  });
}

size_t dlckpt_reader_count(const dlckpt_reader* reader) {
  if (!reader) return 0;
  const Turn turn(&reader->one_thread);
  return turn ? reader->reader.manifest().tensors.size() : 0;
}

dlckpt_error dlckpt_reader_tensor(dlckpt_reader* reader, size_t index, dlckpt_tensor_info* out) {
  return run(reader, [&](dlckpt_reader& r) -> Status {
    const auto& tensors = r.reader.manifest().tensors;
    if (index < tensors.size()) return fill(tensors[index], out);
    return Error{Errc::kNotFound, "index " + std::to_string(index) +
                                      " is out of range; allowed: numbers from 0, below the number of tensors, " +
                                      std::to_string(tensors.size())};
  });
}

dlckpt_error dlckpt_reader_find(dlckpt_reader* reader, const char* path, dlckpt_tensor_info* out) {
  return run(reader, [&](dlckpt_reader& r) -> Status {
    const TensorRecord* tensor = path ? r.reader.manifest().find_tensor(path) : nullptr;
    if (!tensor) return no_tensor(r, path ? path : "");
    return fill(*tensor, out);
  });
}

dlckpt_error dlckpt_reader_load(dlckpt_reader* reader, const char* path, const int64_t* offset, const int64_t* extent,
                                void* data, size_t size) {
  return run(reader, [&](dlckpt_reader& r) { return load(r, path, offset, extent, data, size); });
}

dlckpt_error dlckpt_reader_blob(dlckpt_reader* reader, const char* path, int rank, const void** data, size_t* size) {
  return run(reader, [&](dlckpt_reader& r) -> Status {
    if (!path || !data || !size) return Error{Errc::kInvalid, "path, data or size is NULL; allowed: all three given"};
    for (const dl::ckpt::BlobRecord& blob : r.reader.manifest().blobs) {
      if (blob.path != path || blob.rank != rank) continue;
      r.blob.resize(blob.size);
      if (blob.size > 0) DL_TRY(r.reader.load_blob(blob, r.blob.data()));
      *data = r.blob.data();
      *size = r.blob.size();
      return {};
    }
    return Error{Errc::kNotFound, "the checkpoint of train step " + std::to_string(r.reader.name().step) + " in " +
                                      r.dir + " holds no blob '" + dl::printable(path) + "'" +
                                      (rank < 0 ? " of all ranks" : " of rank " + std::to_string(rank))};
  });
}

const char* dlckpt_reader_errmsg(const dlckpt_reader* reader) {
  if (!reader) return "";
  return reader->one_thread.refused_here() ? dl::ckpt::kAnotherThread : reader->message.c_str();
}

}  // extern "C"
