// SPDX-License-Identifier: Apache-2.0
// What ./run measures: how fast event files of TensorBoard are read, and expressions found in a log.
//
//     collect_once write FILE MIB [other]      writes so many MiB of scalars, as PyTorch writes them, three tags in
//     turn;
//                                              other: with a histogram for each 8 scalars and a picture for each 400
//     collect_once read FOLDER                 reads the event files there, as dl-metrics does; prints seconds and
//     scalars collect_once keep FOLDER                 the same with all that dl-metrics does: it keeps them as series,
//     in FOLDER collect_once patterns LOG EXPRESSION...  looks for the expressions in each line; prints seconds of CPU
//     and values
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/little_endian.h"
#include "launcher/metrics/collector.h"
#include "launcher/metrics/event_files.h"
#include "launcher/metrics/line_file.h"
#include "launcher/metrics/log_patterns.h"
#include "launcher/metrics/scalar_events.h"
#include "launcher/metrics/tf_record.h"

namespace {

constexpr int64_t kBeginMs = 1'790'000'000'000;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// An event with a picture (field 4 of a value of its summary) or a histogram (5), as far as readers look at them.
std::string other_event(int64_t step, char field, size_t bytes) {
  const auto put = [](std::string* to, char key, const std::string& text) {
    to->push_back(key);
    for (size_t length = text.size();; length >>= 7) {
      to->push_back(static_cast<char>(length >= 0x80 ? length | 0x80 : length));
      if (length < 0x80) break;
    }
    *to += text;
  };
  std::string inner, value, summary, event(1, '\x09');
  // Image.encoded_image_string, HistogramProto.bucket (numbers of 8 bytes)
  put(&inner, (field == 4 ? 4 : 7) << 3 | 2, std::string(bytes, static_cast<char>(step)));
  put(&value, 1 << 3 | 2, "layers/0/weight");
  put(&value, static_cast<char>(field << 3 | 2), inner);
  put(&summary, 1 << 3 | 2, value);
  dl::put_little(&event, 0x41daac8040000000, 8);  // the time, about that of the scalars
  put(&event, 5 << 3 | 2, summary);
  std::string record;
  dl::put_little(&record, event.size(), 8);
  dl::put_little(&record, dl::metrics::masked_crc32c(record), 4);
  record += event;
  dl::put_little(&record, dl::metrics::masked_crc32c(event), 4);
  return record;
}

int write(const char* path, size_t bytes, bool other) {
  std::FILE* file = std::fopen(path, "wb");
  if (file == nullptr) return 1;
  std::string text = dl::metrics::events_begin(kBeginMs);
  size_t written = 0;
  constexpr const char* kTags[] = {"Loss/train", "Accuracy/train", "learning_rate"};
  for (int64_t at = 0; written + text.size() < bytes; ++at) {
    const double value = 1e6 / (static_cast<double>(at) + 1e5) + static_cast<double>(at * 7919 % 1000) / 1000;
    text += dl::metrics::scalar_event(kBeginMs + at, at / 3, kTags[at % 3], value);
    if (other && at % 8 == 7) text += other_event(at, 5, 1000);
    if (other && at % 400 == 399) text += other_event(at, 4, 60'000);
    if (text.size() < (1 << 20)) continue;
    written += std::fwrite(text.data(), 1, text.size(), file);
    text.clear();
  }
  std::fwrite(text.data(), 1, text.size(), file);
  return std::fclose(file) == 0 ? 0 : 1;
}

int read(const std::string& folder) {
  const double began = seconds();
  dl::metrics::EventFiles files(folder, 0);
  size_t scalars = 0;
  for (;;) {
    const dl::metrics::EventLook& look = files.look(1, true);
    scalars += look.values.size();
    for (const std::string& note : look.notes) std::fprintf(stderr, "collect_once: %s\n", note.c_str());
    if (!look.more) break;
  }
  fmt::print("{:.6f} {}\n", seconds() - began, scalars);
  return 0;
}

double cpu_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

int patterns(const std::string& log, char** expressions) {
  dl::metrics::LogPatterns all;
  for (; *expressions != nullptr; ++expressions) {
    if (const dl::Status added = all.add(*expressions); !added) {
      std::fprintf(stderr, "collect_once: %s\n", added.error().text.c_str());
      return 1;
    }
  }
  dl::metrics::LineFile file(log, 0, dl::metrics::kLongestMetricLine, true);
  std::vector<dl::metrics::Found> found;
  std::string note;
  size_t values = 0;
  const double began = cpu_seconds();
  for (bool more = true; more;) {
    const auto any = file.read(256 << 10, [&](std::string_view line) {
      all.read(line, &found, &note);
      values += found.size();
      found.clear();
    });
    more = any && *any;
  }
  fmt::print("{:.6f} {}\n", cpu_seconds() - began, values);
  return 0;
}

int keep(const std::string& folder) {
  const double began = seconds();
  dl::metrics::CollectorOptions options;
  options.series = folder + "/learner-0.series";
  options.log = folder + "/learner-0.log";
  options.events = folder;
  dl::metrics::Collector collector(options);
  if (!collector.open()) return 1;
  while (collector.look(kBeginMs)) {
  }
  fmt::print("{:.6f}\n", seconds() - began);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 4 && std::strcmp(argv[1], "write") == 0)
    return write(argv[2], static_cast<size_t>(std::atoi(argv[3])) << 20, argc > 4);
  if (argc == 3 && std::strcmp(argv[1], "read") == 0) return read(argv[2]);
  if (argc == 3 && std::strcmp(argv[1], "keep") == 0) return keep(argv[2]);
  if (argc > 3 && std::strcmp(argv[1], "patterns") == 0) return patterns(argv[2], argv + 3);
  std::fputs("usage: collect_once write FILE MIB [other] | read FOLDER | keep FOLDER | patterns LOG EXPRESSION...\n",
             stderr);
  return 2;
}
