// SPDX-License-Identifier: Apache-2.0
// The collective part of a restore. Rank 0 proposes the newest checkpoint whose manifest and files look whole. Every
// rank checks that it fits and says what it wants. Then all ranks load it in one pass (loader.h), in which each stored
// byte is read once. If a block turns out to be damaged, all go on to the next older checkpoint and load that
// completely.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/client/loader.h"
#include "checkpoint/client/peers.h"
#include "checkpoint/client/registry.h"
#include "checkpoint/client/settings.h"
#include "checkpoint/store/io.h"

namespace dl::ckpt {

struct Restored {
  CheckpointName name;
  std::string note;  // which newer checkpoints were passed over, and why; may be empty
};

// Numbers of this rank's last restore or peek.
struct RestoreStats {
  int64_t step = -1;
  uint64_t needed_bytes = 0;  // bytes of the blocks that all ranks together need: the same on all ranks
  uint64_t read_bytes = 0;    // bytes of the blocks that this rank read from files
  uint64_t sent_bytes = 0, received_bytes = 0;
  double seconds = 0;
  bool exchange = false;  // bytes were sent from rank to rank
};

class Restorer {
 public:
  // All arguments are borrowed and must outlive this object.
  Restorer(Io& io, const Settings& settings, const Registry& registry)
      : io_(io), settings_(settings), registry_(registry) {}

  // Collective; peers.group().start() must have been called. See dlckpt_restore and dlckpt_peek. kNotFound, kCorrupt,
  // kConflict, kIo, kTimeout, kInternal with ENOMEM.
  Result<Restored> restore(Peers& peers, int64_t step) { return run(peers, step, false); }
  Result<Restored> peek(Peers& peers, int64_t step) { return run(peers, step, true); }

  // Notes that a file of this checkpoint that loading does not read is damaged: from now on DLCKPT_LATEST passes over
  // the checkpoint.
  void remember_damage(const CheckpointName& name, const Error& how) { bad_[name.save_id] = how.text; }
  // Forgets which checkpoints were found damaged, because they may have been repaired.
  void forget_damage() { bad_.clear(); }

  const std::map<std::string, std::string>& blobs() const { return blobs_; }
  const RestoreStats& stats() const { return stats_; }
  // The manifest of the checkpoint that the last restore() restored. It can be taken once.
  std::optional<Manifest> take_manifest() { return std::exchange(manifest_, std::nullopt); }

 private:
  struct Proposal {                    // used on rank 0
    std::vector<CheckpointName> left;  // candidates, the newest last
    std::string wish;                  // " of train step 7", or empty if any will do
    std::string passed_over;
    bool any = false, io_trouble = false;
    // of the checkpoint proposed last, kept since a manifest of many tensors takes long to read
    std::optional<Manifest> manifest;
  };
  enum class Next { kDone, kOlder, kAlone };

  Result<Restored> run(Peers& peers, int64_t step, bool blobs_only);
  Result<CheckpointName> agree(Peers& peers, int64_t step, bool touched);
  Result<CheckpointName> propose(int64_t step, bool touched);
  Result<Manifest> manifest_of(const CheckpointName& name);
  void pass_over(const CheckpointName& name, const Error& why);
  Result<Next> load_together(Peers& peers, const CheckpointName& name, bool blobs_only, bool alone, bool* touched,
                             std::string* note);
  using Compose = std::function<std::string(const std::vector<std::string>&)>;
  Result<LoadEnd> vote(Peers& peers, const CheckpointName& name, const LoadOutcome& mine, const std::string& text,
                       const Compose& compose, std::string* answer);
  LoadOutcome load_mine(Peers& peers, const CheckpointName& name, const Manifest& manifest, const std::string& answer,
                        Exchange* link, bool with_blobs, std::map<std::string, std::string>* blobs);

  Io& io_;
  const Settings& settings_;
  const Registry& registry_;
  uint64_t loads_ = 0;
  Proposal proposal_;
  std::map<uint64_t, std::string> bad_;  // rank 0: save ids of damaged checkpoints, and the damage
  std::optional<CheckpointName> peeked_;
  std::map<std::string, std::string> blobs_;
  RestoreStats stats_;
  std::optional<Manifest> manifest_;
};

}  // namespace dl::ckpt
