// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/metric_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstring>
#include <memory>
#include <utility>

#include "common/base/clock.h"
#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "common/json/json.h"

namespace dl::learner {
namespace {

using std::chrono::steady_clock;

constexpr std::array<std::pair<int, const char*>, 3> kGroups = {
    {{DL_METRIC_TRAIN, "train"}, {DL_METRIC_VALIDATE, "validate"}, {DL_METRIC_TEST, "test"}}};

// Appends the name in JSON's quotes. False if it is no UTF-8, which dump() replaces.
bool append_name(std::string_view name, std::string* out) {
  const std::string quoted = Json(std::string(name)).dump();
  *out += quoted;
  return Json::parse(quoted).text() == name;
}

std::string number_text(double value) {
  std::array<char, 40> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::string(text.data(), end) : "nan";
}

// An open file, and how the kernel names it. A program may close all descriptors that it does not know, as daemons do,
// and open files of its own with their numbers: before each record the name is compared.
struct OpenFile {
  int fd = -1;
  std::string name;
};

// Empty if there is no /proc.
std::string name_of(int fd) {
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  std::array<char, PATH_MAX> name{};
  const ssize_t n = ::readlink(link.c_str(), name.data(), name.size());
  return n > 0 ? std::string(name.data(), static_cast<size_t>(n)) : std::string();
}

std::atomic<const OpenFile*> open_file{nullptr};  // never freed: another thread may read it
std::atomic<int64_t> first_us{0}, blocked_us{0}, left_out{0};
std::atomic<bool> torn{false}, full{false};  // the last record was written in part; the file has its largest size

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now().time_since_epoch()).count();
}

// Opens a regular file, and not as one of the descriptors 0 to 2: a program may have closed them, and what it prints
// would go into the file.
Result<int> open_regular(const char* path) {
  UniqueFd fd(::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666));
  if (!fd) return errno_error(std::string("open ") + path, errno);
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return errno_error(path, errno);
  if (!S_ISREG(status.st_mode)) return Error{Errc::kIo, std::string(path) + " is no regular file"};
  if (fd.get() > STDERR_FILENO) return fd.release();
  const int above = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (above < 0) return errno_error(std::string("open ") + path, errno);
  return above;
}

// *kept: the descriptor stays open for later records; else the caller closes it.
Result<int> descriptor_of(const char* path, bool* kept) {
  *kept = true;
  const OpenFile* known = open_file.load(std::memory_order_acquire);
  if (known != nullptr && name_of(known->fd) == known->name) return known->fd;
  DL_TRY_ASSIGN(const int fd, open_regular(path));
  auto mine = std::make_unique<OpenFile>(OpenFile{fd, name_of(fd)});
  *kept = !mine->name.empty() && open_file.compare_exchange_strong(known, mine.get(), std::memory_order_acq_rel);
  // Whoever came first is used later; this record may go by ours.
  if (*kept) static_cast<void>(mine.release());
  return fd;
}

Status append(const char* path, const std::string& record) {
  bool kept = false;
  DL_TRY_ASSIGN(const int fd, descriptor_of(path, &kept));
  // What was written in part must not spoil this record, too.
  const std::string line = torn.exchange(false) ? "\n" + record : record;
  ssize_t n = 0;
  do n = ::write(fd, line.data(), line.size());
  while (n < 0 && errno == EINTR);
  const int failure = n < 0 ? errno : ENOSPC;
  const bool whole = n == static_cast<ssize_t>(line.size());
  if (!whole) torn = true;
  // The place is that behind what was written; no file system has to be asked.
  if (::lseek(fd, 0, SEEK_CUR) >= kMostMetricFile) full = true;
  if (!kept) ::close(fd);
  return whole ? Status{} : Status(errno_error(std::string("write ") + path, failure));
}

}  // namespace

Result<std::string> metric_record(const dl_metric_value* values, size_t count, int64_t step, int group,
                                  int64_t time_ms) {
  if (values == nullptr || count == 0) return Error{Errc::kInvalid, "values: there are none; allowed: at least one"};
  if (step < DL_METRIC_NO_STEP || step > kMostMetricStep)
    return Error{Errc::kInvalid, "step: " + std::to_string(step) + " is no train step; allowed: 0 to " +
                                     std::to_string(kMostMetricStep) + ", or DL_METRIC_NO_STEP"};
  const char* label = nullptr;
  for (const auto& [number, name] : kGroups)
    if (number == group) label = name;
  if (label == nullptr)
    return Error{Errc::kInvalid, "group: " + std::to_string(group) + " is unknown; allowed: DL_METRIC_TRAIN, " +
                                     "DL_METRIC_VALIDATE, DL_METRIC_TEST"};
  std::string text = "{\"meta\":{\"time\":" + std::to_string(time_ms) + "},\"grouplabel\":\"" + label + "\"";
  if (step != DL_METRIC_NO_STEP)
    text += R"(,"etimes":{"iteration":{"type":"INT","value":")" + std::to_string(step) + "\"}}";
  text += ",\"values\":{";
  for (size_t i = 0; i < count; ++i) {
    const std::string_view name = values[i].name == nullptr ? "" : values[i].name;
    if (i > 0) text += ',';
    if (name.empty() || name.size() > kMostMetricName || !append_name(name, &text))
      return Error{Errc::kInvalid, "name: '" + printable(name) + "' is no name of a metric; allowed: 1 to " +
                                       std::to_string(kMostMetricName) + " bytes of UTF-8"};
    text += R"(:{"type":"FLOAT","value":")" + number_text(values[i].value) + "\"}";
    if (text.size() > kMostMetricRecord)
      return Error{Errc::kInvalid, "values: these take more than " + std::to_string(kMostMetricRecord) +
                                       " bytes as a record; report them in several calls"};
  }
  return text + "}}\n";
}

Status report_metric(const char* path, const dl_metric_value* values, size_t count, int64_t step, int group) {
  // What is wrong with the values is said everywhere, not only where they are written.
  DL_TRY_ASSIGN(std::string record, metric_record(values, count, step, group, unix_ms()));
  if (path == nullptr || *path == '\0') return {};
  const int64_t begin = now_us();
  int64_t first = 0;
  if (first_us.compare_exchange_strong(first, begin)) first = begin;
  if (full)
    return Error{Errc::kNoSpace, std::string(path) + " has its largest size, " +
                                     format_bytes(static_cast<uint64_t>(kMostMetricFile)) +
                                     "; further values of this attempt are left out"};
  if (!may_report(blocked_us, begin - first)) {
    left_out += 1;
    return {};
  }
  // Taken first, so that no other thread says the same ones, too.
  const int64_t said = left_out.exchange(0);
  if (said > 0) record.insert(1, "\"left_out\":" + std::to_string(said) + ",");
  const Status appended = append(path, record);
  blocked_us += now_us() - begin;
  if (!appended) left_out += said + 1;
  return appended;
}

}  // namespace dl::learner
