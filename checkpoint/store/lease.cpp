// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/store/lease.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "checkpoint/format/manifest_json.h"
#include "checkpoint/format/names.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kMaxLeaseBytes = 8192;
constexpr int kTries = 16;

// The first line of a file that always exists on Linux; empty if it does not.
std::string system_line(const std::string& path) {
  auto text = read_small_file(posix_io(), path, 4096);
  return text ? std::string(trim(*text)) : std::string();
}

std::string pid_namespace() {
  char buffer[64];
  const ssize_t n = ::readlink("/proc/self/ns/pid", buffer, sizeof buffer);
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : std::string();
}

// Field 22 of /proc/PID/stat, counted from behind the command name, which may contain any character. -1: there is no
// such process.
int64_t process_started(int64_t pid) {
  const std::string stat = system_line("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return -1;
  const auto fields = split(trim(std::string_view(stat).substr(name_end + 1)), ' ');
  if (fields.size() < 20 || fields[0] == "Z" || fields[0] == "X") return -1;
  const auto started = parse_int(fields[19], 0, INT64_MAX);
  return started ? *started : -1;
}

std::string host_name() {
  char buffer[256] = "";
  if (::gethostname(buffer, sizeof buffer - 1) != 0) return "unknown";
  return buffer;
}

std::string to_text(const LeaseRecord& r) {
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  const Json json{{"owner", r.owner},
                  {"token", r.token},
                  {"host", r.host},
                  {"boot_id", r.boot_id},
                  {"pid_namespace", r.pid_namespace},
                  {"pid", r.pid},
                  {"pid_started", r.pid_started},
                  {"job_id", r.job_id},
                  {"restart", r.restart},
                  {"expiry_s", r.expiry_s},
                  {"renewed_ms", now.count()}};
  return json.dump_sorted(1) + "\n";
}

Result<LeaseRecord> from_text(const std::string& text) {
  const auto json = parse_json(text);
  if (!json) return Error{Errc::kCorrupt, "it is not JSON"};
  LeaseRecord r;
  DL_TRY_ASSIGN(r.owner, string_member(*json, "owner", 1024));
  DL_TRY_ASSIGN(r.token, string_member(*json, "token", 64));
  if (!is_plain_name(r.token)) return Error{Errc::kCorrupt, "its token is malformed"};
  DL_TRY_ASSIGN(r.host, string_member(*json, "host", 1024));
  DL_TRY_ASSIGN(r.boot_id, string_member(*json, "boot_id", 256));
  DL_TRY_ASSIGN(r.pid_namespace, string_member(*json, "pid_namespace", 256));
  DL_TRY_ASSIGN(r.pid, int_member(*json, "pid", 0, INT32_MAX));
  DL_TRY_ASSIGN(r.pid_started, int_member(*json, "pid_started", -1, INT64_MAX));
  DL_TRY_ASSIGN(r.job_id, string_member(*json, "job_id", 256));
  DL_TRY_ASSIGN(r.restart, int_member(*json, "restart", 0, INT32_MAX));
  DL_TRY_ASSIGN(r.expiry_s, int_member(*json, "expiry_s", 1, 1000000));
  return r;
}

Result<LeaseRecord> read_record(Io& io, const std::string& path) {
  DL_TRY_ASSIGN(const std::string text, read_small_file(io, path, kMaxLeaseBytes));
  auto record = from_text(text);
  if (!record) return std::move(record).error().with_context(path);
  return record;
}

bool is_lease_temporary(const std::string& entry) {
  const std::string prefix = kLeaseTemporaryPrefix;
  return entry.compare(0, prefix.size(), prefix) == 0;
}

bool on_same_kernel(const LeaseRecord& holder, const LeaseRecord& self) {
  return holder.host == self.host && holder.boot_id == self.boot_id && holder.pid_namespace == self.pid_namespace &&
         !holder.boot_id.empty();
}

// Whether the holder has certainly ended, or has not renewed the lease for too long.
bool is_gone(const LeaseRecord& holder, const LeaseRecord& self, int64_t age_ms) {
  if (!self.job_id.empty() && holder.job_id == self.job_id && holder.restart < self.restart) return true;
  if (on_same_kernel(holder, self) && process_started(holder.pid) != holder.pid_started) return true;
  return age_ms > holder.expiry_s * 1000;
}

Error busy(const LeaseRecord& holder, const LeaseRecord& self, const std::string& dir, int64_t age_ms) {
  const bool ourselves = on_same_kernel(holder, self) && holder.pid == self.pid;
  return Error{Errc::kBusy,
               dir + " is in use by " + printable(holder.owner) + " (process " + std::to_string(holder.pid) + " on " +
                   printable(holder.host) + "), last heard of " + std::to_string(age_ms < 0 ? 0 : age_ms / 1000) +
                   " s ago; " +
                   (ourselves ? "that is this process itself: close it there first, or choose another directory"
                              : "only one job at a time may write there: wait for its end, or choose another "
                                "directory")};
}

// One attempt to get the lease.
class Acquisition {
 public:
  Acquisition(Io& io, const std::string& dir, const LeaseRecord& self)
      : io_(io), dir_(dir), self_(self), text_(to_text(self)) {
    own_ = dir + "/" + kLeaseTemporaryPrefix + self.token;
    lease_ = dir + "/" + kLeaseName;
  }

  Status run() {
    DL_TRY(write_new_file(io_, own_, text_, /*durable=*/false));
    auto outcome = loop();
    io_.unlink(own_);
    if (outcome) sweep();
    return outcome;
  }

 private:
  // Removes files that others left behind while they tried. A rival that is still trying creates its file again.
  void sweep() {
    auto entries = list_directory(io_, dir_);
    if (!entries) return;
    for (const std::string& entry : *entries)
      if (is_lease_temporary(entry)) io_.unlink(dir_ + "/" + entry);
  }

  Status loop() {
    for (int i = 0; i < kTries; ++i) {
      DL_TRY_ASSIGN(const bool made, make(lease_));
      if (made) return {};
      DL_TRY_ASSIGN(const bool won, take_over());
      if (won) return {};
    }
    return Error{Errc::kBusy, "the lease on " + dir_ + " could not be taken: other jobs took it each of " +
                                  std::to_string(kTries) +
                                  " times; only one job at a time may write there: end the others, or choose another "
                                  "directory"};
  }

  // Creates `path` with our text if it does not exist: by a hard link, or by exclusive creation if there are no hard
  // links.
  Result<bool> make(const std::string& path) {
    const int rc = io_.link(own_, path);
    if (rc == 0) return true;
    // On NFS the answer to a successful link may be lost, and the repeated call finds the file.
    if (is_ours(path)) return true;
    if (rc == -EEXIST) return false;
    if (rc == -ENOENT) {  // the holder of the lease has swept our file away
      DL_TRY(write_new_file(io_, own_, text_, /*durable=*/false));
      return false;
    }
    if (rc == -EPERM || rc == -EOPNOTSUPP || rc == -ENOSYS || rc == -EMLINK) {
      auto written = write_new_file(io_, path, text_, /*durable=*/false);
      if (written) return true;
      if (written.error().code == Errc::kExists) return false;
      return std::move(written).error();
    }
    return io_error("make", path, rc);
  }

  // The file's age in milliseconds, by the clock of the file system.
  Result<int64_t> age_ms(const std::string& path) {
    Io::Info theirs, ours;
    int rc = io_.stat(path, &theirs);
    if (rc < 0) return io_error("stat", path, rc);
    const std::string probe = own_ + ".now";
    DL_TRY(write_new_file(io_, probe, "", /*durable=*/false));
    rc = io_.stat(probe, &ours);
    io_.unlink(probe);
    if (rc < 0) return io_error("stat", probe, rc);
    return ours.modified_ms - theirs.modified_ms;
  }

  // True: the lease is ours. False: something changed, try again.
  Result<bool> take_over() {
    auto age = age_ms(lease_);
    if (!age) return gone_is_false(std::move(age).error());
    auto holder = read_record(io_, lease_);
    if (!holder && holder.error().code == Errc::kCorrupt) {
      // Either this file is no lease, or a crash cut it off on a file system without hard links.
      if (*age < 60000) return Error{Errc::kBusy, lease_ + " cannot be read: " + holder.error().text};
      io_.unlink(lease_);
      return false;
    }
    if (!holder) return gone_is_false(std::move(holder).error());
    if (!is_gone(*holder, self_, *age)) return busy(*holder, self_, dir_, *age);

    const std::string claim = dir_ + "/" + kLeaseTemporaryPrefix + "taken-" + holder->token;
    DL_TRY_ASSIGN(const bool claimed, make(claim));
    if (!claimed) {
      auto rival = read_record(io_, claim);
      auto rival_age = age_ms(claim);
      if (rival && rival_age && !is_gone(*rival, self_, *rival_age)) return busy(*rival, self_, dir_, *rival_age);
      io_.unlink(claim);
      return false;
    }
    if (!holds(holder->token)) {
      io_.unlink(claim);
      return false;
    }
    io_.rename(claim, lease_);  // its result does not matter: LEASE shows whose it is now
    return is_ours(lease_);
  }

  bool is_ours(const std::string& path) {
    auto record = read_record(io_, path);
    return record && record->token == self_.token;
  }

  bool holds(const std::string& token) {
    auto now = read_record(io_, lease_);
    return now && now->token == token;
  }

  static Result<bool> gone_is_false(Error error) {
    if (error.code == Errc::kNotFound) return false;
    return error;
  }

  Io& io_;
  const std::string& dir_;
  const LeaseRecord& self_;
  std::string text_, own_, lease_;
};

}  // namespace

Result<LeaseRecord> read_lease(Io& io, const std::string& dir) {
  return read_record(io, dir + "/" + kLeaseName);
}

Status check_lease(Io& io, const std::string& dir, const std::string& token) {
  auto record = read_lease(io, dir);
  if (!record) {
    if (record.error().code != Errc::kNotFound) return std::move(record).error();
    Io::Info info;
    if (io.stat(dir, &info) == -ENOENT)
      return Error{Errc::kNotFound,
                   "the checkpoint directory " + dir + " is gone: it was removed or renamed while it was in use"};
    return Error{Errc::kBusy, "the lease on " + dir +
                                  " is gone: somebody removed its file LEASE (with all that was there, perhaps), or "
                                  "another job took the directory and gave it up"};
  }
  if (record->token != token)
    return Error{Errc::kBusy, "the lease on " + dir + " was lost to " + printable(record->owner)};
  return {};
}

LeaseRecord describe_holder(const std::string& owner, const std::string& job_id, int64_t expiry_s) {
  LeaseRecord self;
  self.owner = owner;
  self.token = format_save_id(random_u64()) + format_save_id(random_u64());
  self.host = host_name();
  self.boot_id = system_line("/proc/sys/kernel/random/boot_id");
  self.pid_namespace = pid_namespace();
  self.pid = ::getpid();
  self.pid_started = process_started(self.pid);
  self.job_id = job_id;
  if (const char* restart = std::getenv("SLURM_RESTART_COUNT")) {
    const auto count = parse_int(restart, 0, INT32_MAX);
    if (count) self.restart = *count;
  }
  self.expiry_s = expiry_s;
  return self;
}

Result<Lease> Lease::acquire(Io& io, const std::string& dir, const std::string& owner, const std::string& job_id,
                             int64_t expiry_s) {
  return acquire(io, dir, describe_holder(owner, job_id, expiry_s));
}

Result<Lease> Lease::acquire(Io& io, const std::string& dir, LeaseRecord self) {
  auto outcome = Acquisition(io, dir, self).run();
  if (!outcome) return std::move(outcome).error();
  return Lease(io, dir, std::move(self));
}

Lease::Lease(Io& io, std::string dir, LeaseRecord record)
    : io_(&io), dir_(std::move(dir)), record_(std::move(record)) {}

Lease::Lease(Lease&& other) noexcept
    : io_(other.io_),
      dir_(std::move(other.dir_)),
      record_(std::move(other.record_)),
      held_(std::exchange(other.held_, false)) {}

Lease::~Lease() {
  release();
}

Status Lease::renew() {
  if (record_.pid != ::getpid())
    return Error{Errc::kInvalid, "the lease on " + dir_ + " is another process's: a child of fork() cannot renew it"};
  DL_TRY(check_lease(*io_, dir_, record_.token));
  return replace_file(*io_, dir_ + "/" + kLeaseName, dir_ + "/" + kLeaseTemporaryPrefix + record_.token,
                      to_text(record_), /*durable=*/false);
}

void Lease::release() {
  if (!std::exchange(held_, false)) return;
  // A forked child must not release its parent's lease.
  if (record_.pid != ::getpid()) return;
  if (check_lease(*io_, dir_, record_.token)) io_->unlink(dir_ + "/" + kLeaseName);
}

}  // namespace dl::ckpt
