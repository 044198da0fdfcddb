// SPDX-License-Identifier: Apache-2.0
#include "launcher/runs/job_book.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/json/json.h"

namespace dl::runs {
namespace {

constexpr size_t kMaxBook = 64 << 20;
constexpr size_t kFieldOfStart = 20;           // behind the name in /proc/PID/stat, counted from the state
constexpr std::chrono::milliseconds kLook{2};  // how often the lock is tried while another run holds it

Json to_json(const ProcessId& process) {
  return Json{{"pid", static_cast<int>(process.pid)}, {"started", process.started}};
}

ProcessId process_from(const Json& json, const char* name) {
  const Json* found = json.find(name);
  if (found == nullptr) return {};
  return {static_cast<pid_t>(found->value<int64_t>("pid", 0)), found->value<int64_t>("started", 0)};
}

Json to_json(const BookedRun& run) {
  Json shares = Json::array();
  for (const NodeShare& share : run.shares) {
    Json item = Json::object();
    item["node"] = share.node;
    item["gpus"] = Json(share.gpus);
    item["cpus"] = share.cpus;
    item["learners"] = share.learners;
    item["counted"] = share.counted;
    shares.push_back(std::move(item));
  }
  Json json = Json::object();
  json["guard"] = to_json(run.guard);
  json["number"] = run.number;
  json["dir"] = run.dir;
  json["checkpoint"] = run.checkpoint;
  json["arrived"] = run.arrived;
  json["hold"] = run.hold;
  json["excluded"] = run.excluded;
  json["shares"] = std::move(shares);
  return json;
}

BookedRun run_from(const Json& json) {
  BookedRun run;
  run.guard = process_from(json, "guard");
  run.number = json.value<int>("number", 1);
  run.dir = json.value<std::string>("dir", "");
  run.checkpoint = json.value<std::string>("checkpoint", "");
  run.arrived = json.value<bool>("arrived", false);
  run.hold = json.value<bool>("hold", false);
  run.excluded = json.value<std::string>("excluded", "");
  if (const Json* shares = json.find("shares"))
    for (const Json& item : *shares)
      run.shares.push_back({item.value<std::string>("node", ""), item.value<std::vector<int>>("gpus", {}),
                            item.value<int>("cpus", 0), item.value<int>("learners", 0),
                            item.value<bool>("counted", true)});
  return run;
}

JobBook book_from(const Json& json) {
  JobBook book;
  book.start = json.value<int>("start", 0);
  if (const Json* runs = json.find("runs"))
    for (const Json& item : *runs) book.runs.push_back(run_from(item));
  if (const Json* stop = json.find("stop"))
    book.stop = BookedStop{stop->value<std::string>("cause", ""), stop->value<std::string>("who", ""),
                           stop->value<int64_t>("deadline_ms", 0)};
  book.putting_back = process_from(json, "putting_back");
  book.back = json.value<bool>("back", false);
  book.refused = json.value<std::string>("refused", "");
  return book;
}

enum class Kind { kOwn, kGone, kForeign };
// Kinds of file at the book's path: the user's own book; one that was removed or replaced since it was opened; or one
// that somebody else has put there.
Kind kind_of(int fd) {
  struct stat file {};
  if (::fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_uid != ::geteuid()) return Kind::kForeign;
  if (file.st_nlink == 0) return Kind::kGone;
  return file.st_nlink == 1 ? Kind::kOwn : Kind::kForeign;
}

std::string read_all(int fd) {
  std::string text;
  char buffer[16384];
  ssize_t n = 0;
  while (text.size() < kMaxBook && (n = ::pread(fd, buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0)
    text.append(buffer, static_cast<size_t>(n));
  return text;
}

}  // namespace

bool operator==(const ProcessId& a, const ProcessId& b) {
  return a.pid == b.pid && a.started == b.started;
}

ProcessId process_of(pid_t pid) {
  const auto text = read_small_file(fmt::format("/proc/{}/stat", pid), 4096);
  const size_t close = text ? text->rfind(')') : std::string::npos;
  if (close == std::string::npos || close + 2 > text->size()) return {pid, 0};
  const std::vector<std::string> fields = split(trim(text->substr(close + 2)), ' ');
  if (fields.size() < kFieldOfStart || fields[0] == "Z" || fields[0] == "X") return {pid, 0};
  const auto started = parse_int(fields[kFieldOfStart - 1], 0, INT64_MAX);
  return {pid, started ? *started : 0};
}

bool is_alive(const ProcessId& process) {
  return process.pid > 0 && process.started != 0 && process_of(process.pid) == process;
}

std::string format_book(const JobBook& book) {
  Json runs = Json::array();
  for (const BookedRun& run : book.runs) runs.push_back(to_json(run));
  Json json = Json::object();
  json["start"] = book.start;
  json["runs"] = std::move(runs);
  if (book.stop) {
    Json stop = Json::object();
    stop["cause"] = book.stop->cause;
    stop["who"] = book.stop->who;
    stop["deadline_ms"] = book.stop->deadline_ms;
    json["stop"] = std::move(stop);
  }
  json["putting_back"] = to_json(book.putting_back);
  json["back"] = book.back;
  json["refused"] = book.refused;
  return json.dump();
}

JobBook parse_book(const std::string& text) {
  const Json json = Json::parse(text);
  if (!json.is_object()) return {};
  try {
    return book_from(json);
  } catch (const JsonError&) {
    return {};
  }
}

bool tidy(int start, const std::function<bool(const ProcessId&)>& alive, JobBook* book) {
  const auto dead =
      std::remove_if(book->runs.begin(), book->runs.end(), [&](const BookedRun& run) { return !alive(run.guard); });
  bool changed = dead != book->runs.end();
  book->runs.erase(dead, book->runs.end());
  if (book->start < start || (book->start > start && book->runs.empty())) {
    *book = JobBook{};
    book->start = start;
    return true;
  }
  // A stop that was asked for concerns nobody any more once all runs are gone. If Slurm has requeued the job, it is
  // kept: this start is over.
  if (book->runs.empty() && book->stop && !book->back) {
    book->stop.reset();
    changed = true;
  }
  return changed;
}

BookFile::BookFile(const std::string& number) {
  if (!number.empty()) path_ = fmt::format("/dev/shm/dl-job-{}-{}", ::geteuid(), number);
}

// Opens and locks the book. It may be replaced or removed between open() and flock(). No run holds the lock for long,
// unless it is stopped by a signal.
UniqueFd BookFile::lock(std::chrono::milliseconds patience, bool* busy) {
  const auto limit = std::chrono::steady_clock::now() + patience;
  *busy = false;
  while (!path_.empty()) {
    UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    // Checked before the lock: the owner of a foreign file could hold its lock for ever.
    if (!fd || kind_of(fd.get()) == Kind::kForeign) return {};
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      const Kind kind = kind_of(fd.get());
      if (kind == Kind::kOwn) return fd;
      if (kind == Kind::kForeign) return {};
    } else if (errno != EWOULDBLOCK && errno != EINTR) {
      return {};
    } else if (std::chrono::steady_clock::now() >= limit) {
      *busy = true;
      return {};
    } else {
      std::this_thread::sleep_for(kLook);
    }
  }
  return {};
}

// Writes a new file and puts it in the place of the old one, so that entries of other runs are never lost: a run may be
// killed at any moment, and memory may be full. The lock keeps writers apart.
bool BookFile::write(const std::string& text) const {
  if (text.size() > kMaxBook) return false;
  std::string next = path_ + ".new";
  // What a killed run has left goes. What stays is another user's, in whose way it shall not be: any other name will
  // do.
  const bool foreign = ::unlink(next.c_str()) != 0 && errno != ENOENT;
  if (foreign) next = path_ + ".XXXXXX";
  const UniqueFd fd(foreign ? ::mkostemp(next.data(), O_CLOEXEC)
                            : ::open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return false;
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd.get(), text.data() + done, text.size() - done);
    if (n <= 0 && errno != EINTR) break;
    done += n > 0 ? static_cast<size_t>(n) : 0;
  }
  if (done == text.size() && ::rename(next.c_str(), path_.c_str()) == 0) return true;
  ::unlink(next.c_str());
  return false;
}

BookFile::Outcome BookFile::change(int start, std::chrono::milliseconds patience,
                                   const std::function<bool(JobBook*)>& change) {
  bool busy = false;
  const UniqueFd fd = lock(patience, &busy);
  if (!fd) return busy ? Outcome::kBusy : Outcome::kNoBook;
  const std::string text = read_all(fd.get());
  JobBook book = parse_book(text);
  const bool tidied = tidy(start, is_alive, &book);
  if (book.start > start) return Outcome::kNoBook;
  const bool changed = change(&book);
  if (book.runs.empty()) {
    ::unlink(path_.c_str());
  } else if ((tidied || changed || text.empty()) && !write(format_book(book))) {
    return Outcome::kNotWritten;
  }
  return Outcome::kDone;
}

// Each change makes another file. Without a file, the book is empty.
bool BookFile::has_changed() {
  if (path_.empty()) return false;
  struct stat file {};
  if (::stat(path_.c_str(), &file) != 0) file = {};
  const std::pair<ino_t, int64_t> now{file.st_ino,
                                      static_cast<int64_t>(file.st_mtim.tv_sec) * 1'000'000'000 + file.st_mtim.tv_nsec};
  return std::exchange(seen_, now) != now;
}

}  // namespace dl::runs
