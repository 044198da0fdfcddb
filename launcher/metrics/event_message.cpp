// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/event_message.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>

#include "common/base/little_endian.h"
#include "launcher/metrics/emetrics.h"

namespace dl::metrics {
namespace {

// Kinds of fields on the wire; 3 and 4 are of groups, which nobody uses any more.
constexpr unsigned kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

struct Field {
  uint64_t number = 0;
  unsigned kind = 0;
  uint64_t value = 0;      // of kVarint, kFixed64 and kFixed32
  std::string_view bytes;  // of kBytes
};

// Takes a message apart into its fields.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}
  // False at the end, and where the message is damaged.
  bool next(Field* field) {
    if (rest_.empty() || damaged_) return false;
    const uint64_t key = varint();
    field->number = key >> 3;
    field->kind = key & 7;
    if (field->kind == kVarint) {
      field->value = varint();
    } else if (field->kind == kFixed64 || field->kind == kFixed32) {
      const size_t size = field->kind == kFixed64 ? 8 : 4;
      const std::string_view taken = take(size);
      if (!damaged_) field->value = get_little(taken, 0, size);
    } else if (field->kind == kBytes) {
      field->bytes = take(varint());
    } else {
      damaged_ = true;
    }
    return !damaged_;
  }
  uint64_t varint() {
    if (!rest_.empty() && static_cast<unsigned char>(rest_[0]) < 0x80) {  // as nearly all keys and lengths
      const auto value = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      return value;
    }
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    damaged_ = true;
    return 0;
  }
  bool damaged() const { return damaged_; }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view take(uint64_t bytes) {
    if (bytes > rest_.size()) damaged_ = true;
    if (damaged_) return {};
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  std::string_view rest_;
  bool damaged_ = false;
};

double double_of(uint64_t bits) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
double float_of(uint64_t bits) {
  const auto narrow = static_cast<uint32_t>(bits);
  float value = 0;
  std::memcpy(&value, &narrow, sizeof value);
  return value;
}
double half_of(uint64_t bits) {
  const auto exponent = static_cast<int>(bits >> 10 & 0x1f);
  const auto fraction = static_cast<double>(bits & 0x3ff);
  double value = 0;
  if (exponent == 0x1f)
    value = fraction > 0 ? std::nan("") : INFINITY;
  else
    value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}
double brain_of(uint64_t bits) {
  return float_of((bits & 0xffff) << 16);
}
double int32_of(uint64_t bits) {
  return static_cast<int32_t>(static_cast<uint32_t>(bits));
}
double int64_of(uint64_t bits) {
  return static_cast<double>(static_cast<int64_t>(bits));
}

// The types of tensors that have numbers: in a tensor they are bytes of tensor_content, or elements of a field of
// their own.
struct TensorType {
  uint64_t type;   // of enum DataType
  uint64_t field;  // of TensorProto
  unsigned kind;   // of one element in that field
  size_t bytes;    // of one element in tensor_content
  double (*number)(uint64_t bits);
};
constexpr TensorType kTensorTypes[] = {
    {1, 5, kFixed32, 4, float_of}, {2, 6, kFixed64, 8, double_of}, {3, 7, kVarint, 4, int32_of},
    {9, 10, kVarint, 8, int64_of}, {14, 13, kVarint, 2, brain_of}, {19, 13, kVarint, 2, half_of},
};
constexpr uint64_t kDtype = 1, kTensorContent = 4;

// The elements of a repeated field of numbers, one by one or packed: the first, and how many there are.
void count_elements(const Field& field, unsigned kind, uint64_t* first, size_t* count) {
  if (field.kind == kind) {
    if ((*count)++ == 0) *first = field.value;
    return;
  }
  if (field.kind != kBytes) return;
  Fields elements(field.bytes);
  if (kind != kVarint) {
    const size_t size = kind == kFixed64 ? 8 : 4;
    if (*count == 0 && field.bytes.size() >= size) *first = get_little(field.bytes, 0, size);
    *count += field.bytes.size() / size;
    return;
  }
  while (!elements.at_end() && !elements.damaged() && *count < 2) {
    const uint64_t value = elements.varint();
    if ((*count)++ == 0) *first = value;
  }
}

// The number of a tensor that has one element.
bool read_tensor(std::string_view message, std::optional<double>* value) {
  uint64_t type = 0;
  Field field;
  Fields types(message);
  while (types.next(&field))
    if (field.number == kDtype && field.kind == kVarint) type = field.value;
  if (types.damaged()) return false;
  const auto* known = std::find_if(std::begin(kTensorTypes), std::end(kTensorTypes),
                                   [&](const TensorType& one) { return one.type == type; });
  if (known == std::end(kTensorTypes)) return true;
  uint64_t bits = 0;
  size_t count = 0;
  Fields fields(message);
  while (fields.next(&field)) {
    if (field.number == known->field) count_elements(field, known->kind, &bits, &count);
    if (field.number != kTensorContent || field.kind != kBytes) continue;
    count += field.bytes.size() / known->bytes;
    if (field.bytes.size() == known->bytes) bits = get_little(field.bytes, 0, known->bytes);
  }
  if (count == 1) *value = known->number(bits);
  return true;
}

// SummaryMetadata.plugin_data.plugin_name; other plugins than "scalars" have no scalars.
bool read_plugin(std::string_view message, bool* other) {
  Field field, inner;
  Fields fields(message);
  while (fields.next(&field)) {
    if (field.number != 1 || field.kind != kBytes) continue;
    Fields plugin(field.bytes);
    while (plugin.next(&inner))
      if (inner.number == 1 && inner.kind == kBytes) *other = !inner.bytes.empty() && inner.bytes != "scalars";
    if (plugin.damaged()) return false;
  }
  return !fields.damaged();
}

// Summary.Value
bool read_value(std::string_view message, std::vector<Scalar>* scalars) {
  constexpr uint64_t kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
  std::string_view tag;
  std::optional<double> value;
  bool other = false;
  Field field;
  Fields fields(message);
  while (fields.next(&field)) {
    if (field.number == kTag && field.kind == kBytes) tag = field.bytes;
    if (field.number == kSimpleValue && field.kind == kFixed32) value = float_of(field.value);
    if (field.number == kTensor && field.kind == kBytes && !read_tensor(field.bytes, &value)) return false;
    if (field.number == kMetadata && field.kind == kBytes && !read_plugin(field.bytes, &other)) return false;
  }
  if (fields.damaged()) return false;
  if (value && !other && !tag.empty() && scalars->size() < kMostOfEvent) scalars->push_back({tag, *value});
  return true;
}

bool read_summary(std::string_view message, std::vector<Scalar>* scalars) {
  Field field;
  Fields fields(message);
  while (fields.next(&field))
    if (field.number == 1 && field.kind == kBytes && !read_value(field.bytes, scalars)) return false;
  return !fields.damaged();
}

// The form that nearly all events of scalars have: time, train step, and one short tag with its simple_value, in this
// order. This takes a third of the time. False if the event has another form, which may also be valid.
bool read_usual(std::string_view bytes, double* wall_time, int64_t* step, Scalar* scalar) {
  constexpr char kTimeKey = 1 << 3 | 1, kStepKey = 2 << 3 | 0, kSummaryKey = 5 << 3 | 2;
  constexpr char kValueKey = 1 << 3 | 2, kTagKey = 1 << 3 | 2, kSimpleKey = 2 << 3 | 5;
  constexpr size_t kTime = 9, kNumber = 5, kMostVarint = 9;
  const auto byte = [&](size_t place) { return static_cast<unsigned char>(bytes[place]); };
  if (bytes.size() < kTime || bytes[0] != kTimeKey) return false;
  size_t at = kTime;
  uint64_t number = 0;
  if (at < bytes.size() && bytes[at] == kStepKey) {
    size_t read = 0;
    for (++at; at < bytes.size() && read < kMostVarint; ++read) {
      number |= uint64_t{byte(at) & 0x7fU} << (7 * read);
      if (byte(at++) < 0x80) break;
    }
    if (byte(at - 1) >= 0x80) return false;
  }
  // A summary of one value, each to the end.
  const size_t left = bytes.size() - at;
  if (left < 6 + kNumber || left > 0x7f + 2) return false;
  if (bytes[at] != kSummaryKey || byte(at + 1) != left - 2 || bytes[at + 2] != kValueKey || byte(at + 3) != left - 4)
    return false;
  const size_t tag = left - 6 - kNumber;
  if (bytes[at + 4] != kTagKey || byte(at + 5) != tag || tag == 0 || bytes[at + 6 + tag] != kSimpleKey) return false;
  *wall_time = double_of(get_little(bytes, 1, 8));
  *step = static_cast<int64_t>(number);
  *scalar = {bytes.substr(at + 6, tag), float_of(get_little(bytes, at + 7 + tag, 4))};
  return true;
}

void put_time_and_step(double wall_time, int64_t step, EventScalars* event) {
  constexpr double kLatest = 1e11;  // seconds: beyond it, it is no time
  event->time_ms = wall_time > 0 && wall_time < kLatest ? static_cast<int64_t>(wall_time * 1000) : 0;
  event->step = step >= 0 && step <= kMostStep ? step : kNoStep;
}

// The group that a word means, in any case of its letters; empty if none.
std::string_view group_of(std::string_view word) {
  constexpr size_t kLongest = 16;  // all such words are shorter
  char lowered[kLongest];
  if (word.empty() || word.size() > kLongest) return {};
  std::transform(word.begin(), word.end(), lowered, [](char c) { return lower(c); });
  return group_of_word(std::string_view(lowered, word.size()));
}

// The group of the last word in a text that is divided by '_', '-' and '.'; empty if no word is a group's.
std::string_view group_in(std::string_view text) {
  std::string_view group;
  while (!text.empty()) {
    const size_t end = text.find_first_of("_-.");
    const std::string_view its = group_of(text.substr(0, end));
    if (!its.empty()) group = its;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return group;
}

}  // namespace

void name_of_tag(std::string_view tag, std::string_view folder, Found* found) {
  const size_t first = tag.find('/'), last = tag.rfind('/');
  found->name = tag;
  std::string_view group;
  if (first != std::string_view::npos) {
    const std::string_view front = group_of(tag.substr(0, first));
    group = front.empty() ? group_of(tag.substr(last + 1)) : front;
    if (!group.empty()) found->name = front.empty() ? tag.substr(0, last) : tag.substr(first + 1);
  } else if (const size_t word = tag.find('_'); word != std::string_view::npos) {
    group = group_of(tag.substr(0, word));
    if (!group.empty()) found->name = tag.substr(word + 1);
  }
  if (found->name.empty()) found->name = tag;
  if (group.empty()) group = group_in(folder.substr(folder.rfind('/') + 1));
  found->group = group.empty() ? kTrain : group;
}

bool read_event(std::string_view bytes, EventScalars* event) {
  constexpr uint64_t kWallTime = 1, kStep = 2, kSummary = 5;
  event->scalars.clear();
  double wall_time = 0;
  auto step = int64_t{0};  // which Protocol Buffers leave out
  if (Scalar one; read_usual(bytes, &wall_time, &step, &one)) {
    event->scalars.push_back(one);
    put_time_and_step(wall_time, step, event);
    return true;
  }
  wall_time = 0;
  step = 0;
  bool good = true;
  Field field;
  Fields fields(bytes);
  while (good && fields.next(&field)) {
    if (field.number == kWallTime && field.kind == kFixed64) wall_time = double_of(field.value);
    if (field.number == kStep && field.kind == kVarint) step = static_cast<int64_t>(field.value);
    if (field.number == kSummary && field.kind == kBytes) good = read_summary(field.bytes, &event->scalars);
  }
  good = good && !fields.damaged();
  if (!good) event->scalars.clear();
  put_time_and_step(wall_time, step, event);
  return good;
}

}  // namespace dl::metrics
