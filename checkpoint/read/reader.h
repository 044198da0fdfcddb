// SPDX-License-Identifier: Apache-2.0
// Reads one checkpoint of a directory without owning it: it takes no lease and writes nothing, so the directory may be
// another user's, on a file system mounted read-only, or in use by the job that trains. It needs no libhdf5.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/read/tensor_stream.h"
#include "checkpoint/store/io.h"

namespace dl::ckpt {

// One object is used by one thread at a time. All data that it returns has been verified against the manifest, block by
// block.
class Reader {
 public:
  // Picks the newest checkpoint that looks whole (its manifest is good, and all its files have their size), or the
  // newest one of a train step. A checkpoint that the owning job removes meanwhile is no candidate; then the directory
  // is listed again. kNotFound names the train steps that exist; kCorrupt if no candidate is whole; kDenied, kIo,
  // kInvalid.
  static Result<Reader> open(Io& io, std::string dir, std::optional<int64_t> step);

  const CheckpointName& name() const { return picked_->manifest.name; }
  const Manifest& manifest() const { return picked_->manifest; }  // valid until older()
  // The checkpoints that were passed over, with the reason: one sentence for each.
  const std::vector<std::string>& passed_over() const { return passed_over_; }

  // Picks the next older checkpoint that looks whole. Errors as those of open(); then the present one stays picked.
  Status older();

  // Reads the elements of a box of a tensor of manifest(), in the box's C order, with several threads if that pays.
  // `out` has room for all of them; after an error its content is undefined. kNotFound also if the job that owns the
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
  // The checkpoints that may be picked, newest first; never empty.
  using Candidates = std::function<Result<std::vector<CheckpointName>>(const std::optional<CheckpointName>& gone)>;
  Status pick(const Candidates& candidates);
  // Sets *gone to a candidate that was removed meanwhile.
  Status pick_of(const std::vector<CheckpointName>& candidates, std::optional<CheckpointName>* gone);
  Status explained(Status outcome) const;

  Io* io_;
  std::string dir_;
  std::unique_ptr<Picked> picked_;  // its address must not change, because the stream refers to its manifest
  std::vector<std::string> passed_over_;
};

}  // namespace dl::ckpt
