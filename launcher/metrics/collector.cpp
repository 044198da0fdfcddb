// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/collector.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/awake_clock.h"
#include "common/base/parse.h"
#include "common/contract/metric_patterns.h"
#include "launcher/metrics/emetrics.h"

namespace dl::metrics {
namespace {

constexpr size_t kMostRead = 256 << 10;  // in one go: what it tells fits into a frame
// Positions of sources in the series; names with a '#' are no files.
constexpr const char* kLog = "#log";
constexpr const char* kValues = "#values";
constexpr const char* kEmetrics = "#emetrics";
constexpr std::string_view kEvents = "#events ";  // and the path of an event file
constexpr std::string_view kTold = "#told ";      // and a name that the learner reports itself
constexpr const char* kEpoch = "#epoch";
constexpr const char* kBatches = "#batches";

int64_t known(const SeriesWriter& writer, const std::string& name) {
  const auto found = writer.positions().find(name);
  return found == writer.positions().end() ? 0 : static_cast<int64_t>(found->second);
}

// Of a value, whatever the case of its letters, and cut as in the series: the log's names are short, in lower case.
std::string name_told(std::string_view group, std::string_view name) {
  return lower(std::string(group.substr(0, kMostName)).append(" ").append(name.substr(0, kMostName)));
}

}  // namespace

Status Collector::open() {
  DL_TRY(writer_.open(options_.series));
  if (!options_.progress.empty()) progress_.open(options_.progress);
  log_ = LineFile(options_.log, static_cast<uint64_t>(known(writer_, kLog)), kLongestMetricLine, true);
  for (const auto& [path, position] : {std::pair{options_.values, kValues}, std::pair{options_.emetrics, kEmetrics}})
    if (!path.empty())
      records_.push_back(
          {path, position, LineFile(path, static_cast<uint64_t>(known(writer_, position)), kLongestRecord, false)});
  for (const auto& [name, there] : writer_.positions())
    if (name.compare(0, kTold.size(), kTold) == 0) told_.insert(name.substr(kTold.size()));
  std::set<std::string> folders;  // each once
  const auto add_folder = [&](std::string folder) {
    while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
    if (!folder.empty() && folders.insert(folder).second) events_.emplace_back(folder, options_.since_ms);
  };
  add_folder(options_.events);
  for (const std::string& pattern : options_.patterns) {
    const std::string folder(event_folder(pattern));
    if (!folder.empty())
      add_folder(folder);
    else if (Status added = patterns_.add(pattern); !added)
      writer_.note(added.error().text);
  }
  for (const auto& [name, position] : writer_.positions()) {
    if (name.compare(0, kEvents.size(), kEvents) != 0) continue;
    const std::string path = name.substr(kEvents.size());
    for (EventFiles& files : events_)
      if (path.compare(0, files.folder().size() + 1, files.folder() + "/") == 0) files.set_position(path, position);
  }
  usual_.epoch = known(writer_, kEpoch);
  usual_.batches = known(writer_, kBatches);
  usual_.counted = known(writer_, kCountedPosition) - 1;
  usual_.total = known(writer_, kTotalPosition);
  return {};
}

// The train step of a value: the one that its source names; else the one that the checkpoint library has announced;
// else the one that was counted from what the script prints.
void Collector::add(std::vector<Found>* found) {
  for (const Found& one : *found) {
    int64_t step = one.step;
    if ((step == kNoStep || !one.surely) && page_.attached && page_.step != kNoStep) step = page_.step;
    writer_.add(one.group, one.name, {one.time_ms > 0 ? one.time_ms : now_ms_, step, one.value});
  }
  found->clear();
}

void Collector::add_from_log(std::vector<Found>* found) {
  if (!told_.empty())
    found->erase(std::remove_if(found->begin(), found->end(),
                                [&](const Found& one) { return told_.count(name_told(one.group, one.name)) > 0; }),
                 found->end());
  add(found);
}

// What the user has described is as he says; of such a line nothing else is guessed.
void Collector::take_line(std::string_view line, std::vector<Found>* found) {
  std::string note;
  if (patterns_.empty() || !patterns_.read(line, found, &note)) usual_.read(line, found);
  if (!note.empty()) writer_.note(note);
  add_from_log(found);
}

void Collector::take_record(const std::string& path, std::string_view line) {
  std::vector<Found> found;
  const auto left_out = read_emetrics(line, &found);
  if (!left_out) return writer_.note("lines that are no records of metrics were passed over: " + path);
  if (*left_out > 0)
    writer_.note(
        "values that the program reported are missing, because its file could not be written, or writing took the "
        "program too long: the file system is slow, or threads of a Python program waited for one another");
  for (const Found& one : found) tell(one.group, one.name);
  add(&found);
}

void Collector::tell(std::string_view group, std::string_view name) {
  if (told_.size() >= kMostSeries) return;
  const std::string told = name_told(group, name);
  if (told_.insert(told).second) writer_.position(std::string(kTold).append(told), 1);
}

// The same for many values at once, of which each name is looked for once.
void Collector::add_events(const EventLook& look) {
  std::vector<SeriesWriter::Known*> series;
  series.reserve(look.names.size());
  for (const EventLook::Name& one : look.names) {
    tell(one.group, one.name);
    series.push_back(writer_.series(one.group, one.name));
  }
  const bool announced = page_.attached && page_.step != kNoStep;
  for (const EventLook::Value& one : look.values) {
    Point point = one.point;
    if (point.time_ms <= 0) point.time_ms = now_ms_;
    if (point.step == kNoStep && announced) point.step = page_.step;
    writer_.add(series[one.name], point);
  }
}

bool Collector::read_events(bool last) {
  bool more = false;
  for (EventFiles& files : events_) {
    const EventLook& look = files.look(awake_ms(), last);
    add_events(look);
    for (const auto& [path, position] : look.positions) writer_.position(std::string(kEvents).append(path), position);
    for (const std::string& note : look.notes) writer_.note(note);
    more = more || look.more;
  }
  return more;
}

bool Collector::read_records() {
  bool more = false;
  for (Records& records : records_) {
    const auto any = records.file.read(kMostRead, [&](std::string_view line) { take_record(records.path, line); });
    if (!any) {
      writer_.note("the values that the program reported could not be read: " + any.error().text);
      continue;
    }
    writer_.position(records.position, records.file.position());
    if (records.position == kValues && records.file.position() >= kMostReported)
      writer_.note("the file of the values that the program reports has " + format_bytes(kMostReported) +
                   ": dl.metric() and dl_metric() write no more to it in this attempt");
    more = more || *any;
  }
  return more;
}

bool Collector::read_log(std::vector<std::string>* lines) {
  const auto any = log_.read(kMostRead, [&](std::string_view line) { lines->emplace_back(line); });
  if (!any) writer_.note("the log could not be read: " + any.error().text);
  return any && *any;
}

void Collector::take_log(const std::vector<std::string>& lines) {
  std::vector<Found> found;
  for (const std::string& line : lines) take_line(line, &found);
  writer_.position(kLog, log_.position());
  writer_.position(kEpoch, static_cast<uint64_t>(usual_.epoch));
  writer_.position(kBatches, static_cast<uint64_t>(usual_.batches));
  writer_.position(kCountedPosition, static_cast<uint64_t>(usual_.counted + 1));
  if (usual_.total > 0) writer_.position(kTotalPosition, static_cast<uint64_t>(usual_.total));
}

void Collector::look_at_page(bool last) {
  page_ = progress_.read();
  if (page_.attached && page_.step != kNoStep && !writer_.has_begin()) {
    // By the first look it may have trained on; a restore has set what it began with.
    const int64_t step = page_.saved_step == kNoStep ? page_.step : std::min(page_.saved_step, page_.step);
    writer_.begin({step, now_ms_});
  }
  std::vector<Found> found;
  rates_.look(page_, now_ms_, last, &found);
  add(&found);
}

void Collector::flush() {
  // The disk may be full; the next look tries it again.
  ignore(writer_.flush(), "nobody listens here, and the learner goes on");
}

bool Collector::look(int64_t now_ms) {
  now_ms_ = now_ms;
  look_at_page(false);
  // What the program prints is read before what it reports, and used after it: a value that it has reported before it
  // printed it is then known as such.
  std::vector<std::string> lines;
  const bool more_log = read_log(&lines);
  const bool more_values = read_records();
  const bool more_events = read_events(false);
  take_log(lines);
  flush();
  return more_values || more_events || more_log;
}

void Collector::finish(int64_t now_ms, int64_t deadline_ms) {
  now_ms_ = now_ms;
  while (read_events(true) && awake_ms() < deadline_ms) flush();
  while (look(now_ms) && awake_ms() < deadline_ms) continue;
  for (Records& records : records_) {
    records.file.finish([&](std::string_view line) { take_record(records.path, line); });
    writer_.position(records.position, records.file.position());
  }
  std::vector<std::string> last;
  log_.finish([&](std::string_view line) { last.emplace_back(line); });
  take_log(last);
  look_at_page(true);
  flush();
}

}  // namespace dl::metrics
