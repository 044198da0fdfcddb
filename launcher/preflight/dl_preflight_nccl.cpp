// SPDX-License-Identifier: Apache-2.0
// dl-preflight-nccl: measures how fast the GPUs of a few nodes reduce together over NCCL. dlrun starts one process on
// each node. The process drives all GPUs that it sees, and prints one line of JSON (nccl_rounds.h).
//   dl-preflight-nccl FOLDER NODE,NODE;NODE,NODE,...
// All groups measure at the same time. FOLDER is a new folder that all nodes see. Files in it carry NCCL's unique id
// from a group's first node to the others, and report whether a node has NCCL at all. MPI is not used for that, since
// the job's MPI may be what does not work. Communicators are non-blocking and every wait has a deadline: an NCCL that
// hangs is aborted.
// Exit status: 0 when the line was printed, whatever it reports; 2 for wrong arguments.
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/base/standard_files.h"
#include "common/base/this_process.h"
#include "launcher/preflight/nccl_abi.h"
#include "launcher/preflight/nccl_rounds.h"

namespace {

using namespace dl::preflight;  // NOLINT(google-build-using-namespace)
using Clock = std::chrono::steady_clock;
using dl::Errc;
using dl::Error;
using dl::Status;

constexpr size_t kBytes = size_t{64} << 20;  // on each GPU
constexpr int kTimes = 4;                    // measured; the best counts. One more, before them, sets up connections.
// In a larger group nodes wait only for the first node's report on NCCL, not for those of all.
constexpr size_t kFewNodes = 4;
constexpr std::chrono::seconds kMeet{10}, kConnect{15}, kReduce{10}, kFinish{3};
constexpr unsigned kLast = 50;
constexpr char kReady[] = "ready", kNone[] = "none";

struct Gpu {
  nccl::Context context = nullptr;
  nccl::Stream stream = nullptr;
  nccl::Pointer memory = 0;
  nccl::Comm comm = nullptr;
};

class Measurement {
 public:
  Measurement(std::string folder, std::vector<std::string> group, std::string node)
      : folder_(std::move(folder)), group_(std::move(group)), node_(std::move(node)) {}

  NcclReport run() {
    NcclReport report;
    report.node = node_;
    Status ready = load();
    if (Status told = meet(ready ? "" : ready.error().text); ready) ready = std::move(told);
    if (ready && group_.size() * gpus_.size() < 2)
      ready = Error{Errc::kUnsupported, "one GPU alone takes part; needed: two or more"};
    if (ready) ready = connect();
    double best = 1e9;
    for (int i = 0; ready && i <= kTimes; ++i) {
      const auto begin = Clock::now();
      ready = reduce();
      if (i > 0) best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
    if (ready) let_others_finish();
    for (const Gpu& gpu : gpus_)
      if (gpu.comm != nullptr) call_.ncclCommAbort(gpu.comm);
    if (ready) {
      const auto ranks = static_cast<double>(group_.size() * gpus_.size());
      report.bytes_per_s = 2 * (ranks - 1) / ranks * static_cast<double>(kBytes) / best;
    } else {
      report.skipped = ready.error().code == Errc::kUnsupported;
      report.text = ready.error().text;
    }
    return report;
  }

 private:
  // Returns kUnsupported if nothing is wrong, but the node cannot measure.
  Status load() {
    void* const cuda = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (cuda == nullptr) return Error{Errc::kUnsupported, node_ + " has no libcuda.so.1"};
    void* const library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return Error{Errc::kUnsupported, node_ + " has no libnccl.so.2"};
    const char* missing = nullptr;
    const auto find = [&](void* from, const char* symbol) {
      void* const found = ::dlsym(from, symbol);
      if (found == nullptr) missing = symbol;
      return found;
    };
#define DL_FIND_IN_NCCL(type, symbol) call_.symbol = reinterpret_cast<decltype(call_.symbol)>(find(library, #symbol));
#define DL_FIND_IN_CUDA(type, symbol) call_.symbol = reinterpret_cast<decltype(call_.symbol)>(find(cuda, #symbol));
    DL_NCCL_FUNCTIONS(DL_FIND_IN_NCCL)
    DL_NCCL_DRIVER_FUNCTIONS(DL_FIND_IN_CUDA)
    if (missing != nullptr) return Error{Errc::kUnsupported, node_ + ": its NCCL or CUDA has no " + missing};
    return prepare();
  }

  Status prepare() {
    int count = 0;
    DL_TRY(cuda("cuInit", call_.cuInit(0)));
    DL_TRY(cuda("cuDeviceGetCount", call_.cuDeviceGetCount(&count)));
    if (count == 0) return Error{Errc::kIo, node_ + ": CUDA finds no GPU"};
    for (int device = 0; device < count; ++device) {
      gpus_.emplace_back();
      Gpu& gpu = gpus_.back();
      DL_TRY(cuda("cuDevicePrimaryCtxRetain", call_.cuDevicePrimaryCtxRetain(&gpu.context, device)));
      DL_TRY(cuda("cuCtxSetCurrent", call_.cuCtxSetCurrent(gpu.context)));
      DL_TRY(cuda("cuMemAlloc", call_.cuMemAlloc_v2(&gpu.memory, kBytes)));
      DL_TRY(cuda("cuStreamCreate", call_.cuStreamCreate(&gpu.stream, nccl::kStreamNonBlocking)));
    }
    return {};
  }

  std::string file_of(const std::string& node) const {
    return folder_ + "/" + group_.front() + "." + node;
  }

  // Exchanges the files. fault: why this node cannot take part; empty if it can.
  Status meet(const std::string& fault) {
    std::string mine = fault.empty() ? kReady : kNone + (" " + fault);
    if (fault.empty() && node_ == group_.front()) {
      const nccl::Result code = call_.ncclGetUniqueId(&id_);
      DL_TRY(check("ncclGetUniqueId", code));
      mine.append(id_.internal, sizeof id_.internal);
    }
    DL_TRY(dl::write_file_atomically(file_of(node_), mine));
    if (!fault.empty()) return {};
    const size_t many = group_.size() > kFewNodes ? 1 : group_.size();
    for (size_t i = 0; i < many; ++i) DL_TRY(hear(group_[i]));
    return {};
  }

  Status hear(const std::string& node) {
    for (const auto begin = Clock::now(); Clock::now() - begin < kMeet;) {
      look_again();
      const auto text = dl::read_small_file(file_of(node), 4096);
      if (!text) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      if (text->compare(0, sizeof kNone - 1, kNone) == 0)
        return Error{Errc::kUnsupported, dl::printable(text->substr(std::min(text->size(), sizeof kNone)), 200)};
      if (node == group_.front() && text->size() == sizeof kReady - 1 + sizeof id_.internal)
        std::memcpy(id_.internal, text->data() + sizeof kReady - 1, sizeof id_.internal);
      return {};
    }
    return Error{Errc::kTimeout, node + " did not join the measurement in time"};
  }

  Status connect() {
    const auto here = static_cast<size_t>(std::find(group_.begin(), group_.end(), node_) - group_.begin());
    const auto ranks = static_cast<int>(group_.size() * gpus_.size());
    call_.ncclGroupStart();
    Status begun;
    for (size_t i = 0; i < gpus_.size() && begun; ++i) {
      nccl::Config config;
      config.blocking = 0;
      begun = cuda("cuCtxSetCurrent", call_.cuCtxSetCurrent(gpus_[i].context));
      if (begun)
        begun = check("ncclCommInitRankConfig",
                      call_.ncclCommInitRankConfig(&gpus_[i].comm, ranks, id_,
                                                   static_cast<int>(here * gpus_.size() + i), &config));
    }
    const nccl::Result ended = call_.ncclGroupEnd();
    if (!begun) return begun;
    DL_TRY(check("ncclGroupEnd", ended));
    return settle("NCCL's communicator was not made", kConnect);
  }

  // Waits until all communicators have done what was begun.
  Status settle(const char* late, Clock::duration limit) {
    const auto begin = Clock::now();
    for (const Gpu& gpu : gpus_) {
      for (nccl::Result state = nccl::kInProgress; state == nccl::kInProgress;) {
        if (Status asked = check("ncclCommGetAsyncError", call_.ncclCommGetAsyncError(gpu.comm, &state)); !asked)
          return asked;
        DL_TRY(check("NCCL", state));
        if (state == nccl::kInProgress) DL_TRY(rest(late, begin, limit));
      }
    }
    return {};
  }

  Status reduce() {
    const auto begin = Clock::now();
    call_.ncclGroupStart();
    Status begun;
    for (Gpu& gpu : gpus_) {
      // The driver returns addresses of GPU memory as numbers; NCCL takes pointers.
      auto* const memory = reinterpret_cast<void*>(gpu.memory);  // NOLINT(performance-no-int-to-ptr)
      if (begun) begun = cuda("cuCtxSetCurrent", call_.cuCtxSetCurrent(gpu.context));
      if (begun)
        begun = check("ncclAllReduce", call_.ncclAllReduce(memory, memory, kBytes / sizeof(float), nccl::kFloat32,
                                                           nccl::kSum, gpu.comm, gpu.stream));
    }
    const nccl::Result ended = call_.ncclGroupEnd();
    if (!begun) return begun;
    DL_TRY(check("ncclGroupEnd", ended));
    const char* const late = "NCCL's all-reduce did not end";
    DL_TRY(settle(late, kReduce));
    for (const Gpu& gpu : gpus_) {
      for (;;) {
        const int state = call_.cuStreamQuery(gpu.stream);
        if (state == nccl::kCudaSuccess) break;
        if (state != nccl::kCudaNotReady) return cuda("cuStreamQuery", state);
        nccl::Result behind = nccl::kSuccess;
        DL_TRY(check("ncclCommGetAsyncError", call_.ncclCommGetAsyncError(gpu.comm, &behind)));
        DL_TRY(check("NCCL", behind));
        DL_TRY(rest(late, begin, kReduce));
      }
    }
    return {};
  }

  // A communicator that is aborted here fails in a process that has not seen the end of the last all-reduce yet. In a
  // small group every node says when it is done; a large one, whose files would be too many to look at, only waits.
  void let_others_finish() const {
    if (group_.size() > kFewNodes) {
      std::this_thread::sleep_for(kFinish / 3);
      return;
    }
    constexpr char kDone[] = ".done";
    if (!dl::write_file_atomically(file_of(node_) + kDone, "")) return;
    const auto begin = Clock::now();
    for (const std::string& node : group_) {
      while (::access((file_of(node) + kDone).c_str(), F_OK) != 0 && Clock::now() - begin < kFinish) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        look_again();
      }
    }
  }
  // An NFS client may believe for a while that a file is missing. Opening its folder makes the client look again.
  void look_again() const {
    if (DIR* folder = ::opendir(folder_.c_str()); folder != nullptr) ::closedir(folder);
  }

  Status rest(const char* late, Clock::time_point begin, Clock::duration limit) const {
    if (Clock::now() - begin > limit)
      return Error{Errc::kTimeout, std::string(late) + " within " +
                                       std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit).count()) +
                                       " s"};
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    return {};
  }

  Status check(const char* what, nccl::Result code) const {
    if (code == nccl::kSuccess || code == nccl::kInProgress) return {};
    return Error{Errc::kIo, std::string(what) + ": " + call_.ncclGetErrorString(code)};
  }
  Status cuda(const char* what, int code) const {
    if (code == nccl::kCudaSuccess) return {};
    return Error{Errc::kIo, node_ + ": " + what + " failed: CUDA error " + std::to_string(code)};
  }

  std::string folder_;
  std::vector<std::string> group_;
  std::string node_;
  nccl::Functions call_;
  nccl::UniqueId id_{};
  std::vector<Gpu> gpus_;  // their resources are released when the process ends
};

}  // namespace

int main(int argc, char** argv) try {
  dl::open_closed_standard_files();
  if (argc != 3) {
    std::fprintf(stderr, "usage: dl-preflight-nccl FOLDER NODE,NODE;NODE,NODE,...\n");
    return 2;
  }
  ::alarm(kLast);  // ends the process if NCCL hangs in a call that should not block
  const std::string node = dl::node_name();
  for (const std::string& text : dl::split(argv[2], ';')) {
    const std::vector<std::string> group = dl::split(text, ',');
    if (std::find(group.begin(), group.end(), node) == group.end()) continue;
    const NcclReport report = Measurement(argv[1], group, node).run();
    std::printf("%s\n", format_nccl_report(report).c_str());
    std::fflush(stdout);
    ::_exit(0);  // skips what NCCL's threads do at a normal exit
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "dl-preflight-nccl: %s\n", e.what());
  return 1;
}
