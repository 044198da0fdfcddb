// SPDX-License-Identifier: Apache-2.0
// Any bytes as an event file of TensorBoard. The first byte says whether checksums are corrected, the next two where
// the file ended when it was read for the first time.
#include <algorithm>
#include <vector>

#include "common/base/little_endian.h"
#include "launcher/metrics/emetrics.h"
#include "launcher/metrics/event_message.h"
#include "launcher/metrics/tf_record.h"
#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {
namespace {

using namespace metrics;

void put_checksum(std::string* text, size_t at, const std::string& of) {
  std::string sum;
  put_little(&sum, masked_crc32c(of), 4);
  text->replace(at, 4, sum);
}

// Makes the checksums right, as far as records follow one another. A length that is too large ends with the file.
void correct(std::string* text) {
  for (size_t at = 0; at + kTfRecordHead + kTfRecordTail <= text->size();) {
    const size_t most = text->size() - at - kTfRecordHead - kTfRecordTail;
    uint64_t length = get_little(*text, at, 8);
    if (length > most && length % 4 != 0) {  // others stay: records that have not ended
      length = length % (most + 1);
      std::string put;
      put_little(&put, length, 8);
      text->replace(at, 8, put);
    }
    put_checksum(text, at + 8, text->substr(at, 8));
    if (length > most) return;
    put_checksum(text, at + kTfRecordHead + length, text->substr(at + kTfRecordHead, length));
    at += kTfRecordHead + length + kTfRecordTail;
  }
}

}  // namespace

void event_files(const uint8_t* data, size_t size) {
  Bytes input(data, size);
  const uint8_t mode = input.u8();
  size_t cut = input.number(2);
  std::string text = input.rest();
  if ((mode & 1) != 0) correct(&text);
  cut = std::min(cut, text.size());
  std::vector<std::string> whole, parts;
  const RecordScan scan = scan_records(text, [&](std::string_view record) { whole.emplace_back(record); });
  must(scan.used <= text.size(), "records lie within the file");
  if (!scan.damaged && scan.needed > 0) must(scan.needed > text.size() - scan.used, "a whole record is read");
  const auto add = [&](std::string_view record) { parts.emplace_back(record); };
  const RecordScan first = scan_records(std::string_view(text).substr(0, cut), add);
  const RecordScan second = scan_records(std::string_view(text).substr(first.used), add);
  must(parts == whole && first.used + second.used == scan.used && first.wrong + second.wrong == scan.wrong,
       "a file that grows gives the same records");
  EventScalars event;  // used again, as the reader of files does
  for (const std::string& record : whole) {
    if (!read_event(record, &event)) must(event.scalars.empty(), "of a damaged event nothing is taken");
    must(event.scalars.size() <= kMostOfEvent, "the values of an event are bounded");
    must(event.step >= kNoStep && event.step <= kMostStep && event.time_ms >= 0, "a train step and a time are ones");
    for (const Scalar& scalar : event.scalars) {
      Found found;
      name_of_tag(scalar.tag, (mode & 2) != 0 ? "runs/validation" : "", &found);
      must(!found.name.empty() && !found.group.empty(), "a value has a name and a group");
    }
  }
}

}  // namespace dl::ckpt::fuzz
