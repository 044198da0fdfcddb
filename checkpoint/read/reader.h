// SPDX-License-Identifier: Apache-2.0
// Reads one checkpoint of a directory without owning it: takes no lease and writes nothing, so the directory may be
// another user's, on a file system mounted read-only, or in use by the job that trains. Needs no libhdf5.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/read/tensor_stream.h"
#include "checkpoint/store/io.h"

namespace dl::ckpt {

// For one thread at a time. What it returns has been verified against the manifest, block by block.
class Reader {
 public:
  // The newest checkpoint that looks whole (its manifest, and that all its files have their size), or the newest of a
  // train step. kNotFound names what there is; kCorrupt if none that may be taken is whole; kDenied, kIo, kInvalid.
  static Result<Reader> open(Io& io, std::string dir, std::optional<int64_t> step);

  const CheckpointName& name() const { return picked_->manifest.name; }
  const Manifest& manifest() const { return picked_->manifest; }  // until older()
  // The checkpoints that were passed over when this one was picked, and why: one sentence each.
  const std::vector<std::string>& passed_over() const { return passed_over_; }

  // Takes the next older checkpoint that looks whole. Errors as those of open(); the present one stays picked then.
  Status older();

  // The elements of a box of a tensor of manifest(), in the box's C order, by several threads where that pays.
  // `out` has room for them all; after an error its content is undefined. kNotFound also if the job that owns the
  // directory has removed the checkpoint meanwhile.
  Status load(const TensorRecord& tensor, const Box& box, void* out);
  Status load_blob(const BlobRecord& blob, void* out);

 private:
  struct Picked {
    std::string path;
    Manifest manifest;
    std::unique_ptr<TensorStream> stream;
  };
  Reader(Io& io, std::string dir) : io_(&io), dir_(std::move(dir)) {}
  Status pick(const std::vector<CheckpointName>& candidates);
  Status explained(Status outcome) const;

  Io* io_;
  std::string dir_;
  std::unique_ptr<Picked> picked_;  // its address stays: the stream refers to its manifest
  std::vector<std::string> passed_over_;
};

}  // namespace dl::ckpt
