// SPDX-License-Identifier: Apache-2.0
// dlckpt bench: measures how fast libdlckpt saves and restores in a directory, beside the limits of the disk and of one
// memcpy there. The measurements alternate, so that a disk whose speed changes affects both alike.
#include <fmt/core.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>

#include "checkpoint/read/parallel.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "checkpoint/tools/engine_library.h"
#include "checkpoint/tools/maintenance.h"
#include "checkpoint/tools/raw_disk.h"
#include "common/base/parse.h"

namespace dl::ckpt::tool {
namespace {

constexpr size_t kDepth = 8;  // requests in flight of our own loop

struct BenchOptions {
  std::string dir, size = "1G";
  int tensors = 100, rounds = 5;
  bool json = false;
};

// Durations of the rounds, in seconds.
struct Series {
  std::vector<double> disk_write, disk_read, memcpy, durable, blocked, restore;
};

std::atomic<bool> stopped{false};
void stop(int /*signal*/) {
  stopped = true;
}

using Memory = std::unique_ptr<unsigned char, void (*)(void*)>;

Result<Memory> allocate(uint64_t size) {
  Memory memory(static_cast<unsigned char*>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096)), std::free);
  if (!memory) return Error{Errc::kInternal, "out of memory", ENOMEM};
  return memory;
}

// The data is random, so that no disk can compress it.
void fill(unsigned char* data, uint64_t size) {
  constexpr uint64_t kPart = uint64_t{4} << 20;
  const uint64_t seed = random_u64();
  ignore(for_each_parallel((size + kPart - 1) / kPart, useful_threads(),
                           [&](size_t index, size_t) -> Status {
                             uint64_t state = seed + index * 0x9E3779B97F4A7C15U;
                             const uint64_t end = std::min(size, (index + 1) * kPart);
                             for (uint64_t at = index * kPart; at + 8 <= end; at += 8) {
                               state += 0x9E3779B97F4A7C15U;
                               uint64_t z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9U;
                               z = (z ^ z >> 27) * 0x94D049BB133111EBU;
                               z ^= z >> 31;
                               std::memcpy(data + at, &z, sizeof z);
                             }
                             return {};
                           }),
         "it cannot fail");
}

// Changes every page between two saves, as training changes weights, so that every save has to write all of them.
void change(unsigned char* data, uint64_t size) {
  for (uint64_t at = 0; at < size; at += 4096) ++data[at];
}

uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word)
    if (uint64_t kib = 0; word == "MemAvailable:" && file >> kib) return kib << 10;
  return UINT64_MAX;
}

Status check_room(const std::string& dir, uint64_t size) {
  struct statvfs fs {};
  if (::statvfs(dir.c_str(), &fs) != 0) return errno_error("look at " + dir, errno);
  const uint64_t free = uint64_t{fs.f_bavail} * fs.f_frsize;
  if (free / 4 < size)
    return Error{Errc::kNoSpace, dir + ": " + format_bytes(free) + " are free, " + format_bytes(4 * size) +
                                     " are needed; --size makes it smaller"};
  const uint64_t memory = available_memory();
  if (memory / 3 < size)
    return Error{Errc::kNoSpace, format_bytes(memory) + " of memory are available, " + format_bytes(3 * size) +
                                     " are needed; --size makes it smaller"};
  return {};
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The folder of the bench, which is removed at the end in any case. A killed bench leaves a .tmp- folder, which dlckpt
// gc removes.
struct Folder {
  std::string path;
  ~Folder() { ignore(remove_tree(posix_io(), path, 4), "what is left is removed by dlckpt gc"); }
};

class Bench {
 public:
  Bench(const Engine& engine, std::string folder, uint64_t size, unsigned char* state, unsigned char* other)
      : engine_(engine), folder_(std::move(folder)), size_(size), state_(state), other_(other) {}

  Status open(int tensors) {
    DL_TRY_ASSIGN(dlckpt_ctx * ctx, open_single(engine_, folder_, "bench-" + format_save_id(random_u64()), 1));
    context_.emplace(engine_, ctx);
    const uint64_t each = size_ / static_cast<uint64_t>(tensors) / 4096 * 4096;
    for (int i = 0; i < tensors; ++i) {
      const uint64_t at = static_cast<uint64_t>(i) * each;
      const auto count = static_cast<int64_t>((i + 1 == tensors ? size_ - at : each) / 4);
      DL_TRY(context_->check(engine_.tensor(ctx, ("tensor" + std::to_string(i)).c_str(), DLCKPT_F32, 1, &count, nullptr,
                                            nullptr, state_ + at, DLCKPT_REPLICATED)));
    }
    return {};
  }

  // The first round does not count, because it includes work that is done once.
  Status run(int rounds) {
    for (int round = 0; round <= rounds; ++round) {
      Series* to = round == 0 ? &warm_up_ : &series_;
      if (round % 2 == 0) {
        DL_TRY(limits(to));
        DL_TRY(ours(round, to));
      } else {
        DL_TRY(ours(round, to));
        DL_TRY(limits(to));
      }
    }
    return {};
  }

  const Series& series() const { return series_; }
  bool direct() const { return direct_; }

 private:
  Status limits(Series* to) {
    if (stopped) return Error{Errc::kTimeout, "stopped"};
    const std::string path = folder_ + "/raw";
    DL_TRY_ASSIGN(const RawTime written, raw_write(path, state_, size_, kDepth));
    DL_TRY_ASSIGN(const RawTime read, raw_read(path, size_, kDepth));
    ::unlink(path.c_str());
    direct_ = direct_ && written.direct && read.direct;
    to->disk_write.push_back(written.seconds);
    to->disk_read.push_back(read.seconds);
    to->memcpy.push_back(memcpy_seconds(other_, state_, size_));
    return {};
  }

  Status ours(int64_t step, Series* to) {
    if (stopped) return Error{Errc::kTimeout, "stopped"};
    change(state_, size_);
    const auto begin = std::chrono::steady_clock::now();
    DL_TRY(context_->check(engine_.save(context_->get(), step)));
    to->blocked.push_back(seconds_since(begin));
    if (engine_.wait) DL_TRY(context_->check(engine_.wait(context_->get(), 3600, nullptr)));
    to->durable.push_back(seconds_since(begin));
    if (stopped) return Error{Errc::kTimeout, "stopped"};
    DL_TRY_ASSIGN(const std::vector<CheckpointName> names, scan_checkpoints(posix_io(), folder_));
    for (const CheckpointName& name : names) drop_cache(checkpoint_path(folder_, name));
    const auto again = std::chrono::steady_clock::now();
    DL_TRY(context_->check(engine_.restore(context_->get(), step, nullptr)));
    to->restore.push_back(seconds_since(again));
    return {};
  }

  const Engine& engine_;
  std::string folder_;
  uint64_t size_;
  unsigned char *state_, *other_;
  std::optional<EngineContext> context_;
  Series series_, warm_up_;
  bool direct_ = true;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// The median of the rounds' ratios: the two times of one round were measured in the same minute.
double ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median(std::move(ratios));
}

Json spread(const std::vector<double>& seconds, uint64_t size) {
  const double middle = median(seconds);
  return Json{{"median_s", middle},
              {"min_s", *std::min_element(seconds.begin(), seconds.end())},
              {"max_s", *std::max_element(seconds.begin(), seconds.end())},
              {"bytes_per_s", static_cast<double>(size) / middle}};
}

void print_row(const char* what, const std::vector<double>& seconds, uint64_t size, const std::string& share) {
  const auto rate = [size](double s) {
    return format_bytes(static_cast<uint64_t>(static_cast<double>(size) / s)) + "/s";
  };
  print_line(fmt::format("  {:26} {:>8.3f} s  {:>12}   {:.3f} to {:.3f} s  {}", what, median(seconds),
                         rate(median(seconds)), *std::min_element(seconds.begin(), seconds.end()),
                         *std::max_element(seconds.begin(), seconds.end()), share));
}

void report(const BenchOptions& options, const Engine& engine, uint64_t size, const Bench& bench) {
  const Series& s = bench.series();
  const double write = ratio(s.disk_write, s.durable), read = ratio(s.disk_read, s.restore);
  const double blocked = ratio(s.blocked, s.memcpy);
  if (options.json)
    return print_json(Json{{"dir", options.dir},
                           {"bytes", size},
                           {"tensors", options.tensors},
                           {"rounds", options.rounds},
                           {"library", engine.path},
                           {"direct", bench.direct()},
                           {"disk_write", spread(s.disk_write, size)},
                           {"save_durable", spread(s.durable, size)},
                           {"save_durable_of_disk", write},
                           {"disk_read", spread(s.disk_read, size)},
                           {"restore", spread(s.restore, size)},
                           {"restore_of_disk", read},
                           {"memcpy", spread(s.memcpy, size)},
                           {"save_blocked", spread(s.blocked, size)},
                           {"save_blocked_in_memcpys", blocked}});
  print_line(fmt::format("{}: {} in {} tensors, {} rounds, libdlckpt {}", options.dir, format_bytes(size),
                         options.tensors, options.rounds, engine.version()));
  if (!bench.direct()) print_line("  (no O_DIRECT here: the disk's rates are those of the page cache and fsync)");
  print_row("the disk, writing", s.disk_write, size, "");
  print_row("save, until durable", s.durable, size, fmt::format("{:.0f} % of the disk", 100 * write));
  print_row("the disk, reading", s.disk_read, size, "");
  print_row("restore, nothing cached", s.restore, size, fmt::format("{:.0f} % of the disk", 100 * read));
  print_row("one memcpy", s.memcpy, size, "");
  print_row("save, training blocked", s.blocked, size, fmt::format("{:.2f} memcpys", blocked));
}

Status bench(const BenchOptions& options) {
  auto parsed = parse_bytes(options.size);
  if (!parsed || *parsed < kRawChunk || *parsed > kMaxBytes)
    return Error{Errc::kInvalid,
                 "--size: '" + printable(options.size) + "' is not accepted; allowed: a size from 8M on, such as 1G"};
  const uint64_t size = *parsed / kRawChunk * kRawChunk;
  if (size / static_cast<uint64_t>(options.tensors) < 4096)
    return Error{Errc::kInvalid, "--tensors: " + std::to_string(options.tensors) +
                                     " is too many; allowed: tensors of 4 KiB or more each"};
  DL_TRY(check_room(options.dir, size));
  DL_TRY_ASSIGN(const Engine engine, load_engine());
  leave_job_environment(/*keep_tuning=*/true);
  DL_TRY_ASSIGN(const Memory state, allocate(size));
  DL_TRY_ASSIGN(const Memory other, allocate(size));
  fill(state.get(), size);
  std::memset(other.get(), 1, size);
  const Folder folder{options.dir + "/" + kTemporaryPrefix + "bench-" + format_save_id(random_u64())};
  const int rc = posix_io().mkdir(folder.path);
  if (rc < 0) return io_error("make", folder.path, rc);
  std::signal(SIGINT, stop);
  std::signal(SIGTERM, stop);
  Bench rounds(engine, folder.path, size, state.get(), other.get());
  DL_TRY(rounds.open(options.tensors));
  DL_TRY(rounds.run(options.rounds));
  report(options, engine, size, rounds);
  return {};
}

int run(const BenchOptions& options) {
  if (auto there = check_directory(options.dir); !there) {
    complain(there.error().text);
    return kNothing;
  }
  const auto done = bench(options);
  if (done) return kOk;
  complain(done.error().text);
  return done.error().code == Errc::kInvalid ? kUsage : kNothing;
}

}  // namespace

void add_bench(CommandLine* line, int* exit_code) {
  auto* command = line->subcommand("bench", "Measure saving and restoring beside the disk's own rate and memcpy");
  auto options = std::make_shared<BenchOptions>();
  command->argument("DIR", &options->dir, "A directory on the disk in question; what is made there is removed")
      .required();
  command->option("--size", &options->size, "Size of the state").shows_default();
  command->option("--tensors", &options->tensors, "Number of tensors").shows_default().between(1, 1000000);
  command->option("--rounds", &options->rounds, "Rounds that count, after one that does not")
      .shows_default()
      .between(1, 1000);
  command->flag("--json", &options->json, "Print one object");
  command->action([=] { *exit_code = run(*options); });
}

}  // namespace dl::ckpt::tool
