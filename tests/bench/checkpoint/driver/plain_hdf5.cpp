// SPDX-License-Identifier: Apache-2.0
// HDF5 as most programs use it. Also serves as the measure of what our own way of writing HDF5 files gains.
#include <fcntl.h>
#include <hdf5.h>
#include <unistd.h>

#include <stdexcept>

#include "tests/bench/checkpoint/driver/clock.h"
#include "tests/bench/checkpoint/driver/limits.h"

namespace bench {
namespace {

hid_t good(hid_t id, const char* doing) {
  if (id < 0) throw std::runtime_error(std::string("HDF5 could not ") + doing);
  return id;
}

void sync(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  const bool fine = fd >= 0 && ::fsync(fd) == 0;
  if (fd >= 0) ::close(fd);
  if (!fine) throw std::runtime_error("could not fsync " + path);
}

std::vector<hsize_t> sizes(const std::vector<int64_t>& shape) {
  return {shape.begin(), shape.end()};
}

}  // namespace

double hdf5_save(State& state, const std::string& path) {
  const auto begin = Clock::now();
  const hid_t file = good(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "create the file");
  const hid_t links = good(H5Pcreate(H5P_LINK_CREATE), "make a property list");
  H5Pset_create_intermediate_group(links, 1);
  for (const Tensor& tensor : state.tensors()) {
    const auto dims = sizes(tensor.shape);
    const hid_t space = good(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), "make a dataspace");
    const hid_t set =
        good(H5Dcreate2(file, tensor.name.c_str(), H5T_IEEE_F32LE, space, links, H5P_DEFAULT, H5P_DEFAULT),
             "create a dataset");
    good(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.data.get()), "write a dataset");
    good(H5Dclose(set), "close a dataset");
    H5Sclose(space);
  }
  H5Pclose(links);
  good(H5Fclose(file), "close the file");
  sync(path, O_RDONLY);
  sync(path.substr(0, path.rfind('/')), O_RDONLY | O_DIRECTORY);
  return seconds_since(begin);
}

double hdf5_restore(State& state, const std::string& path) {
  state.clobber();
  const auto begin = Clock::now();
  const hid_t file = good(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "open the file");
  for (const Tensor& tensor : state.tensors()) {
    const hid_t set = good(H5Dopen2(file, tensor.name.c_str(), H5P_DEFAULT), "open a dataset");
    good(H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.data.get()), "read a dataset");
    H5Dclose(set);
  }
  H5Fclose(file);
  return seconds_since(begin);
}

}  // namespace bench
