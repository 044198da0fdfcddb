// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/convert/hdf5_message.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kUndefined = ~uint64_t{0};

// Message types.
enum : uint8_t {
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kFillValue = 0x05,
  kLink = 0x06,
  kLayout = 0x08,
  kGroupInfo = 0x0A,
  kAttribute = 0x0C,
};
constexpr uint8_t kConstantMessage = 1;  // flag of a message that never changes

void put(std::string* out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

// The head of a datatype message: version and class, class bits, size. Properties follow it.
std::string type_head(int version, int type_class, uint32_t bits, uint64_t size) {
  std::string out;
  put(&out, static_cast<uint64_t>(version << 4 | type_class), 1);
  put(&out, bits, 3);
  put(&out, size, 4);
  return out;
}

std::string integer_type(uint64_t size, bool is_signed) {
  std::string out = type_head(1, 0, is_signed ? 8 : 0, size);
  put(&out, 0, 2);         // bit offset
  put(&out, size * 8, 2);  // precision
  return out;
}

std::string float_type(uint64_t size, int exponent_bits, int mantissa_bits, uint32_t bias) {
  // Little-endian; the leading 1 of the mantissa is implied (bits 4-5 = 2); bits 8-15 hold the place of the sign.
  const uint32_t bits = 2U << 4 | static_cast<uint32_t>(exponent_bits + mantissa_bits) << 8;
  std::string out = type_head(1, 1, bits, size);
  put(&out, 0, 2);
  put(&out, size * 8, 2);
  put(&out, static_cast<uint64_t>(mantissa_bits), 1);
  put(&out, static_cast<uint64_t>(exponent_bits), 1);
  put(&out, 0, 1);
  put(&out, static_cast<uint64_t>(mantissa_bits), 1);
  put(&out, bias, 4);
  return out;
}

std::string complex_type(const std::string& part, uint64_t part_size) {
  std::string out = type_head(3, 6, 2, 2 * part_size);
  out.append("r\0", 2);
  put(&out, 0, 1);
  out += part;
  out.append("i\0", 2);
  put(&out, part_size, 1);
  return out + part;
}

// The type that h5py stores NumPy's bool as, and reads back as bool.
std::string bool_type() {
  std::string out = type_head(3, 8, 2, 1);
  out += integer_type(1, true);
  out.append("FALSE\0TRUE\0", 11);
  out.append("\0\1", 2);
  return out;
}

std::string text_type(uint64_t size) {
  return type_head(1, 3, 1 | 1U << 4, size);  // padded with zeros, UTF-8
}

std::string stored_type(const DtypeInfo& dtype) {
  switch (dtype.id) {
    case DLCKPT_F64:
      return float_type(8, 11, 52, 1023);
    case DLCKPT_F32:
      return float_type(4, 8, 23, 127);
    case DLCKPT_F16:
      return float_type(2, 5, 10, 15);
    case DLCKPT_BF16:
      return float_type(2, 8, 7, 127);
    case DLCKPT_I64:
    case DLCKPT_I32:
    case DLCKPT_I16:
    case DLCKPT_I8:
      return integer_type(dtype.size, true);
    case DLCKPT_BOOL:
      return bool_type();
    case DLCKPT_C64:
      return complex_type(float_type(4, 8, 23, 127), 4);
    case DLCKPT_C128:
      return complex_type(float_type(8, 11, 52, 1023), 8);
    default:
      return integer_type(dtype.size, false);  // unsigned integers; float8 is stored as its bits
  }
}

std::string dataspace(const Dims& shape) {
  std::string out;
  put(&out, 2, 1);
  put(&out, shape.size(), 1);
  put(&out, 0, 1);
  put(&out, shape.empty() ? 0 : 1, 1);  // scalar or simple
  for (const int64_t size : shape) put(&out, static_cast<uint64_t>(size), 8);
  return out;
}

uint32_t rotate(uint32_t x, int k) {
  return x << k | x >> (32 - k);
}

}  // namespace

uint32_t lookup3(std::string_view bytes) {
  const auto* k = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t length = bytes.size();
  uint32_t a = 0xdeadbeefU + static_cast<uint32_t>(length), b = a, c = a;
  const auto word = [&](size_t at, size_t have) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4 && at + i < have; ++i) value |= static_cast<uint32_t>(k[at + i]) << (8 * i);
    return value;
  };
  while (length > 12) {
    a += word(0, 12);
    b += word(4, 12);
    c += word(8, 12);
    a = (a - c) ^ rotate(c, 4), c += b;
    b = (b - a) ^ rotate(a, 6), a += c;
    c = (c - b) ^ rotate(b, 8), b += a;
    a = (a - c) ^ rotate(c, 16), c += b;
    b = (b - a) ^ rotate(a, 19), a += c;
    c = (c - b) ^ rotate(b, 4), b += a;
    k += 12;
    length -= 12;
  }
  if (length == 0) return c;
  a += word(0, length);
  b += word(4, length);
  c += word(8, length);
  c = (c ^ b) - rotate(b, 14);
  a = (a ^ c) - rotate(c, 11);
  b = (b ^ a) - rotate(a, 25);
  c = (c ^ b) - rotate(b, 16);
  a = (a ^ c) - rotate(c, 4);
  b = (b ^ a) - rotate(a, 14);
  c = (c ^ b) - rotate(b, 24);
  return c;
}

bool hdf5_needs_name(const DtypeInfo& dtype) {
  return dtype.id == DLCKPT_BF16 || dtype.id == DLCKPT_F8E4M3 || dtype.id == DLCKPT_F8E5M2;
}

std::string hdf5_superblock(uint64_t root_header_at, uint64_t end) {
  std::string out("\211HDF\r\n\032\n", 8);
  put(&out, 2, 1);  // version
  put(&out, 8, 1);  // bytes of an offset
  put(&out, 8, 1);  // bytes of a length
  put(&out, 0, 1);
  put(&out, 0, 8);  // base address
  put(&out, kUndefined, 8);
  put(&out, end, 8);
  put(&out, root_header_at, 8);
  put(&out, lookup3(out), 4);
  return out;
}

void Hdf5Header::add(uint8_t type, const std::string& data, uint8_t flags) {
  put(&messages_, type, 1);
  put(&messages_, data.size(), 2);
  put(&messages_, flags, 1);
  messages_ += data;
}

void Hdf5Header::add_group() {
  std::string info;
  put(&info, 0, 2);           // version and flags
  put(&info, kUndefined, 8);  // no fractal heap: links are in the header
  put(&info, kUndefined, 8);  // and no index of names
  add(kLinkInfo, info);
  add(kGroupInfo, std::string(2, '\0'));
}

void Hdf5Header::add_link(const std::string& name, uint64_t header_at) {
  std::string link;
  put(&link, 1, 1);           // version
  put(&link, 1 | 1 << 4, 1);  // 2 bytes length of the name, character set given
  put(&link, 1, 1);           // UTF-8
  put(&link, name.size(), 2);
  link += name;
  put(&link, header_at, 8);  // a hard link
  add(kLink, link);
}

void Hdf5Header::add_dataset(const DtypeInfo& dtype, const Dims& shape, uint64_t at, uint64_t bytes) {
  add(kDataspace, dataspace(shape));
  add(kDatatype, stored_type(dtype), kConstantMessage);
  std::string fill;
  put(&fill, 3, 1);           // version
  put(&fill, 1 | 1 << 2, 1);  // space is allocated early and never filled
  add(kFillValue, fill, kConstantMessage);
  std::string layout;
  put(&layout, 3, 1);  // version
  put(&layout, 1, 1);  // contiguous
  put(&layout, bytes ? at : kUndefined, 8);
  put(&layout, bytes, 8);
  add(kLayout, layout);
}

void Hdf5Header::add_text_attribute(const std::string& name, const std::string& value) {
  const std::string type = text_type(value.empty() ? 1 : value.size());
  const std::string space = dataspace({});
  std::string attribute;
  put(&attribute, 3, 1);  // version
  put(&attribute, 0, 1);
  put(&attribute, name.size() + 1, 2);
  put(&attribute, type.size(), 2);
  put(&attribute, space.size(), 2);
  put(&attribute, 1, 1);  // the name is UTF-8
  attribute.append(name.c_str(), name.size() + 1);
  attribute += type + space + value;
  if (value.empty()) attribute.push_back('\0');
  add(kAttribute, attribute);
}

std::string Hdf5Header::finish() const {
  std::string out = "OHDR";
  put(&out, 2, 1);  // version
  put(&out, 2, 1);  // 4 bytes length
  put(&out, messages_.size(), 4);
  out += messages_;
  put(&out, lookup3(out), 4);
  return out;
}

}  // namespace dl::ckpt
