// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/names.h"

#include <cinttypes>
#include <cstdio>

#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

// Decimal digits only.
std::optional<uint64_t> digits(std::string_view text) {
  uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

bool is_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    size_t follow = 0;
    uint32_t code = 0;
    if (lead < 0x80) {
      code = lead;
    } else if ((lead & 0xE0) == 0xC0) {
      follow = 1, code = lead & 0x1FU;
    } else if ((lead & 0xF0) == 0xE0) {
      follow = 2, code = lead & 0x0FU;
    } else if ((lead & 0xF8) == 0xF0) {
      follow = 3, code = lead & 0x07U;
    } else {
      return false;
    }
    if (follow >= text.size() - i) return false;
    for (size_t k = 1; k <= follow; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xC0) != 0x80) return false;
      code = code << 6 | (next & 0x3FU);
    }
    static constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
    if (code < kLeast[follow] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    i += follow + 1;
  }
  return true;
}

// Whether it has the form of a piece's name: "s0", "b12".
bool looks_like_piece(std::string_view part) {
  return part.size() >= 2 && (part[0] == 's' || part[0] == 'b') && digits(part.substr(1)).has_value();
}

std::string escape(std::string_view part, bool first) {
  if (part == ".") return "%2E";
  std::string out;
  for (const char c : part) {
    if (c == '%') {
      out += "%25";
    } else {
      out += c;
    }
  }
  if (looks_like_piece(part)) out = (part[0] == 's' ? "%73" : "%62") + out.substr(1);
  if (first && part == "_dlckpt") out = "%5Fdlckpt";
  return out;
}

}  // namespace

std::string format_save_id(uint64_t save_id) {
  char buffer[24];
  std::snprintf(buffer, sizeof buffer, "%016" PRIx64, save_id);
  return buffer;
}

std::optional<uint64_t> parse_save_id(std::string_view text) {
  if (text.size() != 16) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      value = value << 4 | static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value << 4 | static_cast<uint64_t>(c - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return value;
}

std::string format_checkpoint_name(const CheckpointName& name) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "step-%012" PRId64 ".%016" PRIx64, name.step, name.save_id);
  return buffer;
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view text) {
  if (text.size() != 34 || text.substr(0, 5) != "step-" || text[17] != '.') return std::nullopt;
  const auto step = digits(text.substr(5, 12));
  const auto save_id = parse_save_id(text.substr(18));
  if (!step || !save_id) return std::nullopt;
  return CheckpointName{static_cast<int64_t>(*step), *save_id};
}

std::string format_file_name(uint32_t writer, uint32_t part) {
  char buffer[40];
  if (part == 0) {
    std::snprintf(buffer, sizeof buffer, "r%05" PRIu32 ".h5", writer);
  } else {
    std::snprintf(buffer, sizeof buffer, "r%05" PRIu32 ".f%" PRIu32 ".h5", writer, part);
  }
  return buffer;
}

std::optional<FileName> parse_file_name(std::string_view text) {
  if (text.size() < 9 || text.size() > 15 || text[0] != 'r' || text.substr(text.size() - 3) != ".h5")
    return std::nullopt;
  const auto writer = digits(text.substr(1, 5));
  if (!writer) return std::nullopt;
  FileName name{static_cast<uint32_t>(*writer), 0};
  const std::string_view middle = text.substr(6, text.size() - 9);
  if (middle.empty()) return name;
  if (middle.size() < 3 || middle.substr(0, 2) != ".f" || middle[2] == '0') return std::nullopt;
  const auto part = digits(middle.substr(2));
  if (!part) return std::nullopt;
  name.part = static_cast<uint32_t>(*part);
  return name;
}

std::string format_member_file_name(const MemberFileName& name) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "m%05" PRIu32 ".%04" PRIu32, name.writer, name.index);
  return buffer;
}

std::optional<MemberFileName> parse_member_file_name(std::string_view text) {
  if (text.size() != 11 || text[0] != 'm' || text[6] != '.') return std::nullopt;
  const auto writer = digits(text.substr(1, 5)), index = digits(text.substr(7));
  if (!writer || !index) return std::nullopt;
  return MemberFileName{static_cast<uint32_t>(*writer), static_cast<uint32_t>(*index)};
}

Status check_path(std::string_view path) {
  const auto refuse = [&](const char* what) {
    return Error{Errc::kInvalid, "the name '" + printable(path) + "' " + what +
                                     "; allowed: 1 to 512 bytes of UTF-8 like model/layers.0.weight"};
  };
  if (path.empty() || path.size() > 512) return refuse("is empty or too long");
  if (path.front() == '/' || path.back() == '/' || path.find("//") != std::string_view::npos)
    return refuse("has an empty part");
  for (const char c : path)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return refuse("has a control character");
  if (!is_utf8(path)) return refuse("is not UTF-8");
  return {};
}

std::string h5_path(std::string_view path, char kind, unsigned index) {
  std::string out;
  bool first = true;
  for (const std::string& part : split(path, '/')) {
    out += "/" + escape(part, first);
    first = false;
  }
  return out + "/" + kind + std::to_string(index);
}

}  // namespace dl::ckpt
