// SPDX-License-Identifier: Apache-2.0
// A plain HDF5 file for people: each tensor is one whole dataset under its own name, contiguous, so that h5py, MATLAB,
// Julia and h5dump read it without knowing checkpoints. Written by this code and not by libhdf5: metadata come first
// and are a function of names, dtypes and shapes; the data follow.
//
// Only what every HDF5 since 1.8 reads is used: superblock 2, version 2 object headers (checksummed), compact links,
// contiguous layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format/box.h"
#include "checkpoint/format/dtype.h"
#include "common/base/result.h"

namespace dl::ckpt {

struct Hdf5Dataset {
  std::string path;  // "model/layers.0.weight"; '/' makes groups
  const DtypeInfo* dtype = nullptr;
  Dims shape;
  uint64_t at = 0;  // set by plan_hdf5: offset of the data in the file, bytes
  uint64_t bytes = 0;
};

struct Hdf5Attribute {
  std::string name;   // of the root group
  std::string value;  // text
};

struct Hdf5Plan {
  std::string head;  // the file's first bytes
  uint64_t size = 0;
};

// Sets the datasets' places. bfloat16 becomes a custom float (1-8-7), bool the enumeration that h5py uses, float8
// uint8, complex the compound {r, i}; where the stored type does not tell, the attribute "dtype" of the dataset does.
// kConflict: one tensor's name is a group of another.
Result<Hdf5Plan> plan_hdf5(std::vector<Hdf5Dataset>* datasets, const std::vector<Hdf5Attribute>& attributes);

}  // namespace dl::ckpt
