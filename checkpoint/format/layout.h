// SPDX-License-Identifier: Apache-2.0
// The layout of one data file: libhdf5 decides where everything goes and writes the metadata into a SparseImage; the
// data is then written by our own code at the offsets found here.
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
  std::string path;     // registered name, kept in the attribute "path"
  const DtypeInfo* dtype = nullptr;
  Dims shape;  // global shape of the tensor
  Box box;     // the part stored here
  bool replicated = false;
  bool blob = false;  // bytes: one dimension, uint8, no tensor attributes
};

// Whether both describe the same dataset.
bool same_dataset(const LayoutItem& a, const LayoutItem& b);

// A name in the file for a dataset that lies in another file of the checkpoint (an HDF5 external link), so that people
// with h5py find everything in one place.
struct LayoutLink {
  std::string h5_path;  // here and there
  std::string file;
};

struct Layout {
  Layout();
  ~Layout();
  Layout(Layout&&) noexcept;
  Layout& operator=(Layout&&) noexcept;

  std::unique_ptr<SparseImage> image;  // the file with all metadata and holes for the data
  uint64_t file_size = 0;
  std::vector<uint64_t> at;   // file offset of each item's data; 0 where the item is empty
  Extent table;               // place of the block table; may hold more rows than blocks, the rest stay zero
  std::vector<Extent> large;  // data with blocks of its own, by offset
  std::vector<Block> blocks;  // cut, hashes not yet known

  Layout clone() const;
  // Metadata (and zeros where data will be) of [at, at + size).
  void read_image(uint64_t offset, void* out, size_t size) const;
};

// Errors: kInvalid (names that HDF5 cannot hold together), kInternal with HDF5's own words. Never prints. Calls into
// libhdf5 are made by the calling thread alone and take HDF5's global lock.
Result<Layout> lay_out(const std::vector<LayoutItem>& items);

// The same in two steps, of which the first can be kept. Datasets whose names, types and sizes stay the same are laid
// out once (32 to 45 microseconds each); each save then adds the others (blobs) and the block table to a copy. In `at`
// the places of `more` follow those of the template's items.
Result<Layout> lay_out_template(const std::vector<LayoutItem>& items, const std::vector<LayoutLink>& links = {});
Result<Layout> complete_layout(const Layout& begun, const std::vector<LayoutItem>& more);

}  // namespace dl::ckpt
