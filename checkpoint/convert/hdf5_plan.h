// SPDX-License-Identifier: Apache-2.0
// Plans a plain HDF5 file for people: each tensor is one whole dataset under its own name, contiguous, so that h5py,
// MATLAB, Julia and h5dump can read it without knowing checkpoints. This code writes the file, not libhdf5: the
// metadata comes first and is a function of names, dtypes and shapes; the data follows.
//
// It only uses what every HDF5 since 1.8 reads: superblock 2, version 2 object headers (checksummed), compact links,
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
  std::string path;  // "model/layers.0.weight"; each '/' makes a group
  const DtypeInfo* dtype = nullptr;
  Dims shape;
  uint64_t at = 0;  // offset of the data in the file, bytes; plan_hdf5() sets it
  uint64_t bytes = 0;
};

struct Hdf5Attribute {
  std::string name;   // an attribute of the root group
  std::string value;  // text
};

struct Hdf5Plan {
  std::string head;  // the first bytes of the file
  uint64_t size = 0;
};

// Sets the datasets' places. bfloat16 becomes a custom float (1-8-7), bool the enumeration that h5py uses, float8
// uint8, complex the compound {r, i}. If the stored type does not identify the dtype, the attribute "dtype" of the
// dataset does. kConflict if the name of one tensor is a group of another.
Result<Hdf5Plan> plan_hdf5(std::vector<Hdf5Dataset>* datasets, const std::vector<Hdf5Attribute>& attributes);

}  // namespace dl::ckpt
