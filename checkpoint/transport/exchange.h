// SPDX-License-Identifier: Apache-2.0
// Sends bytes from rank to rank over TCP: in restores, so that each stored byte is read only once, and for copies on a
// partner's node.
//
// Ranks find each other through the group (group/group.h): each listens on an ephemeral port, on loopback if all ranks
// share a host, and sends its address to rank 0. A connection is made for the first message from one rank to another,
// and carries messages only in that direction. It is trusted only after both ends have proved that they know the secret
// of this run (challenge and response, HMAC-SHA256), which lies in the run's private folder. Nothing is encrypted;
// every message carries a checksum.
//
// If the ranks cannot use TCP, make_exchange() returns no exchange on any rank, and everything works without it.
//
// Threads: all functions may be called from any thread. One thread of the exchange receives; it blocks all signals. A
// forked child may only destroy its copy.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/group/group.h"
#include "common/base/result.h"

namespace dl::ckpt {

constexpr uint64_t kMaxExchangeBytes = uint64_t{1} << 30;  // size limit of one message

// The kinds of channels. The user of a kind chooses the numbers within it; they must rise, and be the same on all
// ranks.
enum class ChannelKind : uint16_t { kRestore = 1, kPartner = 2, kTest = 3 };
constexpr uint64_t make_channel(ChannelKind kind, uint64_t number) {
  return static_cast<uint64_t>(kind) << 48 | (number & ((uint64_t{1} << 48) - 1));
}

// A pool that keeps the memory of processed messages for the next ones, because allocating memory of this size takes
// longer than filling it.
class BufferPool {
 public:
  BufferPool() { spare_.reserve(kMost); }
  // sizes that are kept; every buffer has kBytes
  static constexpr size_t kFrom = size_t{64} << 10, kBytes = size_t{4} << 20;
  // The memory is not initialised.
  std::unique_ptr<unsigned char[]> take();
  // Keeps the memory, or frees it if enough is kept.
  void give(std::unique_ptr<unsigned char[]> buffer);
  // Frees all memory that is kept.
  void trim();

 private:
  static constexpr size_t kMost = 16;
  std::mutex mutex_;
  std::vector<std::unique_ptr<unsigned char[]>> spare_;
};

// A buffer that is not zeroed before it is filled.
class Bytes {
 public:
  Bytes() = default;
  // Takes the memory from the pool (may be nullptr), and later gives it back if the pool keeps this size.
  explicit Bytes(size_t size, const std::shared_ptr<BufferPool>& pool = nullptr);
  unsigned char* data() { return data_.get(); }
  const unsigned char* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Return {
    std::shared_ptr<BufferPool> pool;
    void operator()(unsigned char* memory) const;
  };
  std::unique_ptr<unsigned char[], Return> data_;
  size_t size_ = 0;
};

struct RankMessage {
  int from = 0;      // the sender's rank
  uint64_t tag = 0;  // the tag that was passed to send()
  Bytes bytes;
};

class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  // Closes all connections. Messages that were sent before are still delivered.
  virtual ~Exchange() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // True if all ranks share one host.
  virtual bool one_host() const = 0;

  // Returns when the kernel has taken the message; `data` is not needed afterwards. Messages from one thread to one
  // rank arrive in order. A rank may send to itself. If a receiver does not call receive(), a sender waits once 64 MiB
  // of its messages are pending. kTimeout, kIo (then the connection is closed, and the next send() makes a new one),
  // kInvalid (too large, no such rank).
  virtual Status send(int to, uint64_t channel, uint64_t tag, const void* data, size_t size) = 0;

  // The next message on this channel, from any rank. `awaited` (by rank; empty: none) marks the ranks from which the
  // caller still expects something. kTimeout; kIo if the connection of an awaited rank has ended and none of its
  // messages is left (the text names it), if bytes were damaged on the way, or if the channel was closed.
  virtual Result<RankMessage> receive(uint64_t channel, const std::vector<bool>& awaited, double timeout_s) = 0;

  // Closes this channel and all lower ones of its kind: drops their messages, also those that arrive later, and ends
  // receive() calls on them.
  virtual void close_channel(uint64_t channel) = 0;
};

// Collective, through the group, whose start() must have been called. All ranks get nullptr if there is a single rank,
// with DL_CHECKPOINT_TRANSPORT=files, if no secret can be kept, or if a rank cannot listen. If ranks are on several
// hosts, DL_CHECKPOINT_INTERFACE names the network interface, or the address of one; by default it is the interface of
// the host's name, or else the first one that is up. It only fails with the group's errors.
Result<std::unique_ptr<Exchange>> make_exchange(Group& group, double timeout_s);

}  // namespace dl::ckpt
