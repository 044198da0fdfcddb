// SPDX-License-Identifier: Apache-2.0
// The layout of one data file: libhdf5 decides where everything goes and writes the metadata into a SparseImage; our
// own code then writes the data at the offsets that are found here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/format/block_table.h"
#include "checkpoint/format/box.h"
#include "checkpoint/format/dtype.h"

namespace dl::ckpt {

class SparseImage;

// One dataset of the file.
struct LayoutItem {
  std::string h5_path;  // unique within the file
  std::string path;     // registered name, which the attribute "path" also has
  const DtypeInfo* dtype = nullptr;
  Dims shape;  // global shape of the tensor
  Box box;     // the part that this dataset stores
  bool replicated = false;
  bool blob = false;  // raw bytes: one dimension, uint8, without the attributes of a tensor
};

// Whether both describe the same dataset.
bool same_dataset(const LayoutItem& a, const LayoutItem& b);

// A name in the file for a dataset that lies in another file of the checkpoint (an HDF5 external link), so that people
// with h5py find everything in one file.
struct LayoutLink {
  std::string h5_path;  // path in both files
  std::string file;
};

struct Layout {
  Layout();
  ~Layout();
  Layout(Layout&&) noexcept;
  Layout& operator=(Layout&&) noexcept;

  std::unique_ptr<SparseImage> image;  // all metadata of the file, with holes for the data
  uint64_t file_size = 0;
  std::vector<uint64_t> at;   // file offset of each item's data; 0 if the item is empty
  Extent table;               // place of the block table; it may have more rows than there are blocks; these stay zero
  std::vector<Extent> large;  // data with blocks of its own, sorted by offset
  std::vector<Block> blocks;  // already cut; the hashes are not known yet

  Layout clone() const;
  // Reads metadata (and zeros in place of data) of [offset, offset + size).
  void read_image(uint64_t offset, void* out, size_t size) const;
};

// Errors: kInvalid (names that cannot exist together in HDF5), kInternal with HDF5's own message. Never prints. Only
// the calling thread calls libhdf5, under HDF5's global lock.
Result<Layout> lay_out(const std::vector<LayoutItem>& items);

// Does the same in two steps, of which the first result can be kept. Datasets whose names, types and sizes stay the
// same are laid out once (32 to 45 microseconds each); each save then adds the others (blobs) and the block table to a
// copy. In `at` the places of `more` follow those of the template's items.
Result<Layout> lay_out_template(const std::vector<LayoutItem>& items, const std::vector<LayoutLink>& links = {});
Result<Layout> complete_layout(const Layout& begun, const std::vector<LayoutItem>& more);

}  // namespace dl::ckpt
