// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/h5.h"

#include <algorithm>

#include "checkpoint/format/block_table.h"
#include "checkpoint/format/hash.h"

namespace dl::ckpt::h5 {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "data is stored as it lies in memory");

herr_t take_innermost(unsigned /*n*/, const H5E_error2_t* error, void* out) {
  // The error stack is walked upward, so the first entry is the place where the error happened.
  auto* text = static_cast<std::string*>(out);
  if (text->empty() && error && error->desc) *text = error->desc;
  return 0;
}

Result<Id> own(hid_t id, Id::Closer closer, const char* what) {
  if (id < 0) return last_error(what);
  return Id(id, closer);
}

Status check(herr_t rc, const char* what) {
  if (rc < 0) return last_error(what);
  return {};
}

Result<Id> dataspace(const Dims& extent) {
  if (extent.empty()) return own(H5Screate(H5S_SCALAR), H5Sclose, "make a scalar dataspace");
  const std::vector<hsize_t> sizes(extent.begin(), extent.end());
  return own(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr), H5Sclose, "make a dataspace");
}

// A floating point type of `bits` bits with these fields, for which HDF5 has no name.
Result<Id> small_float(size_t exponent_bits, size_t mantissa_bits, size_t bias) {
  DL_TRY_ASSIGN(Id type, own(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "copy a type"));
  const size_t bits = 1 + exponent_bits + mantissa_bits;
  DL_TRY(
      check(H5Tset_fields(type.get(), bits - 1, mantissa_bits, exponent_bits, 0, mantissa_bits), "set float fields"));
  DL_TRY(check(H5Tset_ebias(type.get(), bias), "set float bias"));
  DL_TRY(check(H5Tset_precision(type.get(), bits), "set float precision"));
  DL_TRY(check(H5Tset_size(type.get(), bits / 8), "set float size"));
  return type;
}

// h5py's convention for complex numbers.
Result<Id> complex_type(hid_t part, size_t part_size) {
  DL_TRY_ASSIGN(Id type, own(H5Tcreate(H5T_COMPOUND, 2 * part_size), H5Tclose, "make a complex type"));
  DL_TRY(check(H5Tinsert(type.get(), "r", 0, part), "insert a member"));
  DL_TRY(check(H5Tinsert(type.get(), "i", part_size, part), "insert a member"));
  return type;
}

Status write_attribute(const Id& object, const char* name, hid_t type, const Id& space, const void* data) {
  DL_TRY_ASSIGN(const Id attribute,
                own(H5Acreate2(object.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, name));
  return data ? check(H5Awrite(attribute.get(), type, data), name) : Status();
}

}  // namespace

Quiet::Quiet() {
  H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}
Quiet::~Quiet() {
  H5Eset_auto2(H5E_DEFAULT, function_, data_);
}

Error last_error(const std::string& what) {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, &reason);
  H5Eclear2(H5E_DEFAULT);
  return Error{Errc::kInternal, "HDF5: " + what + ": " + (reason.empty() ? "failed" : reason)};
}

Result<Id> file_access(size_t dataset_count) {
  DL_TRY_ASSIGN(Id list, own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make an access list"));
  DL_TRY(check(H5Pset_libver_bounds(list.get(), H5F_LIBVER_V18, H5F_LIBVER_V18), "set the format version"));
  // Only data of this size and more is aligned: aligning metadata as well would bloat the file.
  DL_TRY(check(H5Pset_alignment(list.get(), kOwnBlocksFrom, 4096), "set the alignment"));
  DL_TRY(check(H5Pset_fclose_degree(list.get(), H5F_CLOSE_STRONG), "set the close degree"));
  // The metadata is allocated in few large pieces, so that few blocks mix it with data. About 512 bytes are needed for
  // each dataset.
  const auto meta = std::clamp<hsize_t>(dataset_count * 512, 4096, hsize_t{4} << 20);
  DL_TRY(check(H5Pset_meta_block_size(list.get(), meta), "set the metadata block size"));
  return list;
}

Result<Id> file_creation(uint64_t user_block_bytes) {
  DL_TRY_ASSIGN(Id list, own(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "make a creation list"));
  DL_TRY(check(H5Pset_userblock(list.get(), user_block_bytes), "set the user block"));
  return list;
}

Result<Id> dataset_creation() {
  DL_TRY_ASSIGN(Id list, own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make a dataset list"));
  DL_TRY(check(H5Pset_layout(list.get(), H5D_CONTIGUOUS), "set the layout"));
  DL_TRY(check(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY), "set the allocation time"));
  DL_TRY(check(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER), "set the fill time"));
  DL_TRY(check(H5Pset_obj_track_times(list.get(), false), "set time tracking"));
  return list;
}

Result<Id> link_creation() {
  DL_TRY_ASSIGN(Id list, own(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "make a link list"));
  DL_TRY(check(H5Pset_create_intermediate_group(list.get(), 1), "set group creation"));
  DL_TRY(check(H5Pset_char_encoding(list.get(), H5T_CSET_UTF8), "set the name encoding"));
  return list;
}

Result<Id> create_file(const std::string& name, const Id& creation, const Id& access) {
  return own(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), H5Fclose, "create the file");
}

Result<Id> open_file(const std::string& name, const Id& access) {
  return own(H5Fopen(name.c_str(), H5F_ACC_RDWR, access.get()), H5Fclose, "open the file");
}

Result<Id> stored_type(const DtypeInfo& dtype) {
  const auto copy = [](hid_t type) { return own(H5Tcopy(type), H5Tclose, "copy a type"); };
  switch (dtype.id) {
    case DLCKPT_F64:
      return copy(H5T_IEEE_F64LE);
    case DLCKPT_F32:
      return copy(H5T_IEEE_F32LE);
    case DLCKPT_F16:
      return small_float(5, 10, 15);
    case DLCKPT_BF16:
      return small_float(8, 7, 127);
    case DLCKPT_I64:
      return copy(H5T_STD_I64LE);
    case DLCKPT_I32:
      return copy(H5T_STD_I32LE);
    case DLCKPT_I16:
      return copy(H5T_STD_I16LE);
    case DLCKPT_I8:
      return copy(H5T_STD_I8LE);
    case DLCKPT_U64:
      return copy(H5T_STD_U64LE);
    case DLCKPT_U32:
      return copy(H5T_STD_U32LE);
    case DLCKPT_U16:
      return copy(H5T_STD_U16LE);
    case DLCKPT_U8:
    case DLCKPT_BOOL:
    case DLCKPT_F8E4M3:  // as a float type HDF5 would turn 448 into NaN
    case DLCKPT_F8E5M2:
      return copy(H5T_STD_U8LE);
    case DLCKPT_C64:
      return complex_type(H5T_IEEE_F32LE, 4);
    case DLCKPT_C128:
      return complex_type(H5T_IEEE_F64LE, 8);
  }
  return Error{Errc::kInternal, "no stored type for dtype " + std::to_string(dtype.id)};
}

Result<Id> table_row_type() {
  DL_TRY_ASSIGN(Id type, own(H5Tcreate(H5T_COMPOUND, kTableRowBytes), H5Tclose, "make the table type"));
  const hsize_t hash_bytes[] = {kHashBytes};
  DL_TRY_ASSIGN(const Id hash, own(H5Tarray_create2(H5T_STD_U8LE, 1, hash_bytes), H5Tclose, "make the hash type"));
  DL_TRY(check(H5Tinsert(type.get(), "offset", 0, H5T_STD_U64LE), "insert a member"));
  DL_TRY(check(H5Tinsert(type.get(), "length", 8, H5T_STD_U64LE), "insert a member"));
  DL_TRY(check(H5Tinsert(type.get(), "xxh3_128", 16, hash.get()), "insert a member"));
  return type;
}

Result<Id> create_dataset(const Id& file, const std::string& path, const Id& type, const Dims& extent, const Id& link,
                          const Id& creation) {
  DL_TRY_ASSIGN(const Id space, dataspace(extent));
  const hid_t id =
      H5Dcreate2(file.get(), path.c_str(), type.get(), space.get(), link.get(), creation.get(), H5P_DEFAULT);
  if (id < 0) return last_error("create the dataset " + path);
  return Id(id, H5Dclose);
}

Status create_external_link(const Id& file, const std::string& path, const std::string& target, const Id& link) {
  const herr_t rc = H5Lcreate_external(target.c_str(), path.c_str(), file.get(), path.c_str(), link.get(), H5P_DEFAULT);
  return check(rc, "make an external link");
}

Result<uint64_t> data_offset(const Id& dataset, bool empty) {
  const haddr_t at = H5Dget_offset(dataset.get());
  if (at == HADDR_UNDEF) {
    H5Eclear2(H5E_DEFAULT);
    if (!empty) return Error{Errc::kInternal, "HDF5: a dataset has no place in the file"};
    return uint64_t{0};
  }
  return empty ? uint64_t{0} : static_cast<uint64_t>(at);
}

Status set_attribute(const Id& object, const char* name, const std::string& text) {
  DL_TRY_ASSIGN(const Id type, own(H5Tcopy(H5T_C_S1), H5Tclose, "copy a type"));
  DL_TRY(check(H5Tset_size(type.get(), std::max<size_t>(text.size(), 1)), "set a string size"));
  DL_TRY(check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "set a string encoding"));
  DL_TRY(check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "set a string padding"));
  DL_TRY_ASSIGN(const Id space, dataspace({}));
  return write_attribute(object, name, type.get(), space, text.c_str());
}

Status set_attribute(const Id& object, const char* name, const Dims& values) {
  DL_TRY_ASSIGN(const Id space, dataspace({static_cast<int64_t>(values.size())}));
  return write_attribute(object, name, H5T_STD_I64LE, space, values.empty() ? nullptr : values.data());
}

Status set_attribute(const Id& object, const char* name, uint64_t value) {
  DL_TRY_ASSIGN(const Id space, dataspace({}));
  return write_attribute(object, name, H5T_STD_U64LE, space, &value);
}

Result<uint64_t> file_size(const Id& file) {
  // HDF5 1.10 returns the size that it has reported to the driver, which is 0 until the first flush.
  DL_TRY(check(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "flush the file"));
  hsize_t size = 0;
  if (H5Fget_filesize(file.get(), &size) < 0) return last_error("get the file size");
  return static_cast<uint64_t>(size);
}

Status close_file(Id* file) {
  if (file->close() < 0) return last_error("close the file");
  return {};
}

}  // namespace dl::ckpt::h5
