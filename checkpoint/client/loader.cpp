// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/loader.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include "checkpoint/device/strided_copy.h"
#include "checkpoint/engine/copy.h"
#include "checkpoint/store/quiet_thread.h"
#include "checkpoint/store/verify.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kAbort = UINT64_MAX;  // tag of a message that says: I will send nothing more

// Where the bytes of a region go in this rank's memory.
struct Target {
  StridedMap map;
  unsigned char* memory;
  MemoryPlace place;

  // Copies bytes of the region: fill() takes them from `stored`, fill_packed() one after the other from *packed. On a
  // device they have arrived after copies->wait().
  Status fill(uint64_t from, uint64_t to, const unsigned char* stored, DeviceCopies* copies) const {
    if (!place.on_host()) return scatter_to_device(map, from, to, stored, place, memory, copies);
    map.each(from, to, [&](uint64_t at, int64_t offset, uint64_t length) {
      copy_past_caches(memory + offset, stored + (at - from), length);
    });
    return {};
  }
  Status fill_packed(uint64_t from, uint64_t to, const unsigned char** packed, DeviceCopies* copies) const {
    if (!place.on_host()) return unpack_to_device(map, from, to, packed, place, memory, copies);
    *packed = map.unpack(from, to, *packed, memory);
    return {};
  }
};

class Loader {
 public:
  explicit Loader(const LoadJob& job)
      : job_(job), plan_(*job.plan), files_(job.manifest->files.size()), targets_(job.plan->regions.size()) {}

  LoadOutcome run() {
    find_targets();
    for (size_t i = 0; i < plan_.granules.size(); ++i) {
      const Granule& granule = plan_.granules[i];
      if (granule.reader == job_.rank) mine_.push_back(i);
      const bool takes = std::binary_search(granule.ranks.begin(), granule.ranks.end(), job_.rank);
      if (takes && granule.reader != job_.rank) {
        if (awaited_.empty()) awaited_.resize(static_cast<size_t>(job_.exchange->size()), 0);
        ++awaited_[static_cast<size_t>(granule.reader)];
        ++messages_;
      }
    }
    for (size_t f = 0; f < plan_.file_checkers.size(); ++f)
      if (plan_.file_checkers[f] == job_.rank) checks_.push_back(f);
    if (auto ready = await_devices()) {
      work();
    } else {
      fail(LoadEnd::kFailed, std::move(ready).error());
    }
    if (outcome_.end != LoadEnd::kDone) abort_others();
    if (job_.exchange) job_.exchange->close_channel(job_.channel);
    return std::move(outcome_);
  }

 private:
  void find_targets() {
    for (size_t r = 0; r < plan_.regions.size(); ++r) {
      const Region& region = plan_.regions[r];
      for (const Taker& taker : region.takers) {
        if (!std::binary_search(taker.ranks.begin(), taker.ranks.end(), job_.rank)) continue;
        if (region.blob) {
          std::string& bytes = (*job_.blobs)[region.blob->path];
          bytes.resize(region.blob->size);
          targets_[r].push_back(Target{taker.map, reinterpret_cast<unsigned char*>(bytes.data()), MemoryPlace()});
          continue;
        }
        const RegisteredTensor& tensor = job_.registry->tensors().at(region.tensor->path);
        const RegisteredPart part = tensor.parts()[taker.box_number];
        const auto common = intersect(region.shard->box, part.box);
        if (common)
          targets_[r].push_back(
              Target{StridedMap(region.shard->box, part.box, *common, part.strides, tensor.dtype()->size), part.data,
                     part.place});
      }
    }
  }

  // Work that the program has queued on a device may still use the memory that is filled now, so wait for it.
  Status await_devices() {
    std::vector<MemoryPlace> places;
    for (const std::vector<Target>& targets : targets_)
      for (const Target& target : targets)
        if (!target.place.on_host()) places.push_back(target.place);
    return wait_for_queued_work(places);
  }

  void work() {
    const size_t tasks = checks_.size() + mine_.size();
    // This thread reads, too, unless it has to receive what others send. A helper for which no task is left would only
    // cost the time until it is joined.
    const size_t here = messages_ == 0 ? 1 : 0;
    const size_t helpers = std::min(std::max(tasks, here), static_cast<size_t>(std::max(job_.threads, 1))) - here;
    std::vector<QuietThread> threads;
    threads.reserve(helpers);
    for (size_t i = 0; i < helpers; ++i) {
      auto thread = QuietThread::start([this] { read_all(); });
      if (thread) threads.push_back(*std::move(thread));
    }
    if (messages_ == 0 || threads.size() < std::min<size_t>(helpers, 1)) read_all();
    if (messages_ > 0) receive_all();
    for (QuietThread& thread : threads) thread.join();
  }

  // One thread's loop: it takes files to check and granules to read until none are left.
  void read_all() {
    AlignedBuffer buffer;
    std::vector<unsigned char> packed;
    DeviceCopies copies;  // declared after the buffer, because the copies read it
    try {
      for (;;) {
        const size_t task = next_++;
        if (stop_ || task >= checks_.size() + mine_.size()) return;
        if (task < checks_.size()) {
          auto checked = DataFile::open(*job_.io, job_.checkpoint, *job_.manifest, checks_[task]);
          if (!checked) return fail(LoadEnd::kBad, std::move(checked).error());
        } else if (!read_granule(mine_[task - checks_.size()], &buffer, &packed, &copies)) {
          return;
        }
      }
    } catch (const std::bad_alloc&) {
      fail(LoadEnd::kFailed, Error{Errc::kInternal, "out of memory", ENOMEM});
    }
  }

  Result<DirectFile*> file(size_t index) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!files_[index]) {
      const std::string path = job_.checkpoint + "/" + job_.manifest->files[index].name();
      DL_TRY_ASSIGN(files_[index], DirectFile::open(*job_.io, path));
    }
    return files_[index].get();
  }

  bool read_granule(size_t number, AlignedBuffer* buffer, std::vector<unsigned char>* packed, DeviceCopies* copies) {
    const Granule& granule = plan_.granules[number];
    auto bytes = read_verified(granule, buffer);
    if (!bytes) {
      fail(LoadEnd::kBad, std::move(bytes).error());
      return false;
    }
    job_.counts->read += granule.needed;
    for (const size_t r : granule.regions) {
      const Range part = range(granule, plan_.regions[r]);
      for (const Target& target : targets_[r])
        if (!took(target.fill(part.from, part.to, *bytes + part.at, copies))) return false;
    }
    const bool sent = send_all(number, *bytes, packed);
    return took(copies->wait()) && sent;  // the next granule overwrites the buffer
  }

  Result<const unsigned char*> read_verified(const Granule& granule, AlignedBuffer* buffer) {
    DL_TRY_ASSIGN(DirectFile* const from, file(granule.file));
    DL_TRY_ASSIGN(const unsigned char* const bytes, from->read(granule.at, granule.bytes, buffer));
    const std::vector<Block>& blocks = job_.manifest->files[granule.file].blocks;
    for (const size_t b : granule.blocks)
      if (hash_bytes(bytes + (blocks[b].at - granule.at), blocks[b].length) != blocks[b].hash)
        return Error{Errc::kCorrupt, from->path() + ": the checksum of the block at byte " +
                                         std::to_string(blocks[b].at) + " is wrong"};
    return bytes;
  }

  // The part of a region that lies in the granule: the bytes [from, to) of the region; `from` is `at` bytes into the
  // granule.
  struct Range {
    uint64_t from, to, at;
  };
  static Range range(const Granule& granule, const Region& region) {
    const uint64_t begin = std::max(granule.at, region.at);
    return Range{begin - region.at, std::min(granule.at + granule.bytes, region.end()) - region.at, begin - granule.at};
  }

  // The bytes of a granule that `rank` takes, in the order of regions and takers. Returns their number, and copies them
  // if `out` is set.
  uint64_t taken_by(int rank, const Granule& granule, const unsigned char* bytes, std::vector<unsigned char>* out) {
    uint64_t total = 0;
    for (const size_t r : granule.regions) {
      const Range part = range(granule, plan_.regions[r]);
      for (const Taker& taker : plan_.regions[r].takers) {
        if (!std::binary_search(taker.ranks.begin(), taker.ranks.end(), rank)) continue;
        if (out) taker.map.pack(part.from, part.to, bytes + part.at, out->data() + total);
        total += taker.map.bytes(part.from, part.to);
      }
    }
    return total;
  }

  bool send_all(size_t number, const unsigned char* bytes, std::vector<unsigned char>* packed) {
    const Granule& granule = plan_.granules[number];
    const Region& first = plan_.regions[granule.regions[0]];
    for (const int rank : granule.ranks) {
      if (rank == job_.rank) continue;
      const uint64_t size = taken_by(rank, granule, bytes, nullptr);
      const unsigned char* data = bytes;
      // A granule that lies in one region and is wanted as a whole needs no packing.
      const bool as_it_is = granule.regions.size() == 1 && size == granule.bytes && first.at <= granule.at &&
                            granule.at + granule.bytes <= first.end();
      if (!as_it_is) {
        packed->resize(size);
        taken_by(rank, granule, bytes, packed);
        data = packed->data();
      }
      auto sent = job_.exchange->send(rank, job_.channel, number, data, size);
      if (!sent) {
        fail(LoadEnd::kPeers, std::move(sent).error());
        return false;
      }
      job_.counts->sent += size;
    }
    return true;
  }

  // Returns whether the status is good; otherwise loading ends with kFailed.
  bool took(Status status) {
    if (status) return true;
    fail(LoadEnd::kFailed, std::move(status).error());
    return false;
  }

  void receive_all() {
    DeviceCopies copies;
    uint64_t left = messages_;
    std::vector<bool> awaited(awaited_.size());
    while (left > 0 && !stop_) {
      for (size_t rank = 0; rank < awaited.size(); ++rank) awaited[rank] = awaited_[rank] > 0;
      auto message = job_.exchange->receive(job_.channel, awaited, job_.timeout_s);
      if (stop_) return;
      if (!message) return fail(LoadEnd::kPeers, std::move(message).error());
      if (message->tag == kAbort)
        return fail(LoadEnd::kPeers,
                    Error{Errc::kIo, "rank " + std::to_string(message->from) + " ended its restore with an error"});
      const bool good = take_in(*message, &copies);
      if (!took(copies.wait()) || !good) return;
      --awaited_[static_cast<size_t>(message->from)];
      --left;
    }
  }

  bool take_in(const RankMessage& message, DeviceCopies* copies) {
    const bool expected = message.tag < plan_.granules.size() && plan_.granules[message.tag].reader == message.from &&
                          awaited_[static_cast<size_t>(message.from)] > 0 &&
                          taken_by(job_.rank, plan_.granules[message.tag], nullptr, nullptr) == message.bytes.size();
    if (!expected) {
      fail(LoadEnd::kPeers,
           Error{Errc::kIo, "rank " + std::to_string(message.from) + " sent data that this rank did not ask for"});
      return false;
    }
    const Granule& granule = plan_.granules[message.tag];
    const unsigned char* next = message.bytes.data();
    for (const size_t r : granule.regions) {
      const Range part = range(granule, plan_.regions[r]);
      for (const Target& target : targets_[r])
        if (!took(target.fill_packed(part.from, part.to, &next, copies))) return false;
    }
    job_.counts->received += message.bytes.size();
    return true;
  }

  void fail(LoadEnd end, Error error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // The first error is reported; but an error of this rank replaces one that other ranks caused.
    if (outcome_.end == LoadEnd::kDone || (outcome_.end == LoadEnd::kPeers && end != LoadEnd::kPeers))
      outcome_ = LoadOutcome{end, std::move(error)};
    stop_ = true;
    // Wakes the thread that receives. Incoming messages are dropped from now on, so that no rank waits for us to read
    // them.
    if (job_.exchange) job_.exchange->close_channel(job_.channel);
  }

  // Tells the ranks that still expect messages from this one that none will come.
  void abort_others() {
    if (!job_.exchange) return;
    std::vector<bool> told(static_cast<size_t>(job_.exchange->size()), false);
    for (const size_t number : mine_) {
      for (const int rank : plan_.granules[number].ranks) {
        if (rank == job_.rank || told[static_cast<size_t>(rank)]) continue;
        told[static_cast<size_t>(rank)] = true;
        ignore(job_.exchange->send(rank, job_.channel, kAbort, nullptr, 0), "it then sees that the connection ended");
      }
    }
  }

  const LoadJob& job_;
  const LoadPlan& plan_;
  std::mutex mutex_;  // guards files_ and outcome_
  std::vector<std::unique_ptr<DirectFile>> files_;
  std::vector<std::vector<Target>> targets_;  // by region
  std::vector<size_t> checks_, mine_;         // indexes of the files and granules that this rank has to handle
  std::vector<uint64_t> awaited_;             // number of messages that are still expected, by rank
  uint64_t messages_ = 0;
  std::atomic<size_t> next_{0};
  std::atomic<bool> stop_{false};
  LoadOutcome outcome_;
};

}  // namespace

int usual_read_threads(int world_size, std::optional<uint64_t> memory_left) {
  constexpr int kAlone = 32, kOneOfMany = 2, kAtLeast = 4;
  if (world_size > 1) return kOneOfMany;
  if (!memory_left) return kAlone;
  return static_cast<int>(std::clamp<uint64_t>(*memory_left / 8 / kBlockBytes, kAtLeast, kAlone));
}

LoadOutcome load(const LoadJob& job) {
  try {
    Loader loader(job);
    return loader.run();
  } catch (const std::bad_alloc&) {
    return LoadOutcome{LoadEnd::kFailed, Error{Errc::kInternal, "out of memory", ENOMEM}};
  }
}

}  // namespace dl::ckpt
