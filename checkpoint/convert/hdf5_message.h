// SPDX-License-Identifier: Apache-2.0
// Writes the bytes of HDF5's metadata (HDF5 File Format Specification 3.0): superblock, object headers, messages.
// Import uses libdlckpt, but export does not: it writes no checkpoint, so the C API would need a second writer for this
// tool alone. With these few messages `dlckpt export --h5` also runs without libhdf5.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/format/box.h"
#include "checkpoint/format/dtype.h"

namespace dl::ckpt {

constexpr uint64_t kHdf5SuperblockBytes = 48;

// A superblock of version 2. `end` is the length of the file.
std::string hdf5_superblock(uint64_t root_header_at, uint64_t end);

// True for the dtypes that the stored type does not identify: float8 and bfloat16.
bool hdf5_needs_name(const DtypeInfo& dtype);

// Bob Jenkins' lookup3 ("hashlittle"), the checksum that HDF5 uses for metadata.
uint32_t lookup3(std::string_view bytes);

// Builds a version 2 object header, message by message.
class Hdf5Header {
 public:
  void add_group();
  void add_link(const std::string& name, uint64_t header_at);
  // With bytes == 0 no space is allocated.
  void add_dataset(const DtypeInfo& dtype, const Dims& shape, uint64_t at, uint64_t bytes);
  void add_text_attribute(const std::string& name, const std::string& value);
  // The finished header: prefix, messages, checksum.
  std::string finish() const;

 private:
  void add(uint8_t type, const std::string& data, uint8_t flags = 0);
  std::string messages_;
};

}  // namespace dl::ckpt
