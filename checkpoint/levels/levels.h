// SPDX-License-Identifier: Apache-2.0
// The node-local level: a save is committed on the nodes first, then at the partner nodes, then in the checkpoint
// directory that all nodes share (the *shared* level). A restore first copies what a killed run left on the nodes to
// the shared level, so that all other code knows only that level.
//
//   LOCAL/dlckpt-<hash of the shared directory>/<node>/r00003/     directory of rank 3
//     step-…/ MANIFEST.json  r00003.h5 …                           the whole manifest, this rank's files,
//             r00002.h5 …                                          and those of the rank whose partner it is
//
// A checkpoint in a local directory is committed by rename, too. Each rank has a directory of its own, so ranks on one
// node need not agree on anything; a later start, with any number of ranks, finds all these directories by the node's
// name.
//
// What survives      | a learner killed | a node lost      | a node and its partner lost
// local              | yes              | no               | no
// local + partner    | yes              | yes              | no
// shared             | yes              | yes              | yes
// A local level in memory (/dev/shm) is lost with a reboot of its node. The table holds once the level has committed;
// with the local levels the next start must also be on these nodes (or their partners).
//
// Threads: one at a time. "Collective": all ranks call it, in the same order, after group.start().
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/group/group.h"
#include "checkpoint/levels/verified_copy.h"
#include "checkpoint/store/io.h"
#include "common/base/result.h"

namespace dl::ckpt {

class Exchange;

struct LevelSettings {
  std::string shared;  // the checkpoint directory
  std::string local;   // DIR of local=; empty: there is no local level
  std::string node;    // name of this node; a plain file name
  bool partner = false;
  int rank = 0;
  double timeout_s = 600;
};

class Levels {
 public:
  Levels(Io& io, LevelSettings settings);

  bool active() const { return !settings_.local.empty(); }
  // The directory of this rank.
  const std::string& own_directory() const { return own_; }

  // Creates this rank's directory. Local. kDenied, kNoSpace, kIo …
  Status open();

  // Save, step 1: creates the directory for this rank's files of the attempt, and removes what earlier attempts left.
  // Local.
  Result<std::string> begin(const CheckpointName& name);
  // Step 2, when the files in it are durable. Rank 0 sends the manifest (or its error) to all ranks, and each rank
  // commits. On success it returns the manifest's text, and the checkpoint is committed on all nodes; after a failure
  // no restore will use it. Collective.
  Result<std::string> commit_local(Group& group, const CheckpointName& name, const Result<std::string>& text);
  // Step 3: sends this rank's files to the partner's node. A failure does not affect what is committed. Collective.
  // Does nothing if `exchange` is nullptr.
  Status copy_to_partner(Group& group, Exchange* exchange, const Manifest& manifest);
  // Step 4: copies this rank's files into the attempt at the shared level. The caller publishes it. Local.
  Status copy_to_shared(const Manifest& manifest);
  // Step 5: removes checkpoints older than `newest` from the local level; it comes before step 3 if no file is shared
  // with them. Local.
  void retire_local(const CheckpointName& newest);
  // Replaces steps 2 to 5 after a failure. Local.
  void discard(const CheckpointName& name);

  // Copies checkpoints that are newer than any in the shared directory from the nodes to the shared directory. With
  // `heal` it also replaces damaged files of the newest shared checkpoints by good ones from the nodes. What cannot be
  // copied stays where it is. *note (rank 0) says what was done. Collective; it fails only with the group's errors.
  // Rank 0 must hold the lease.
  Status recover(Group& group, bool heal, std::string* note);

 private:
  // implemented in partner.cpp
  Status learn_partners(Group& group);
  Status send_files(Exchange& exchange, uint64_t channel, int to, const Manifest& manifest);
  Status receive_files(Exchange& exchange, uint64_t channel, const Manifest& manifest);

  struct Found;  // the files of one node
  Found look_around();
  std::vector<std::string> find_file(const CheckpointName& name, const std::string& file);
  Result<Manifest> find_manifest(const CheckpointName& name);
  Status copy_here(const Manifest& manifest, const StoredFile& file, const std::string& into);
  Result<std::string> follow(const std::string& order);
  // Only rank 0 uses the following.
  using Ask = std::function<Result<std::vector<std::string>>(const std::string& order)>;
  Status bring_all(const std::vector<Found>& found, bool heal, const Ask& ask, std::string* note);
  Status bring(const CheckpointName& name, const std::vector<Found>& found, const Ask& ask);
  Result<Manifest> fetch_manifest(const CheckpointName& name, const std::vector<Found>& found, const Ask& ask,
                                  std::string* text);
  Status gather_files(const CheckpointName& name, const std::vector<StoredFile>& files, const std::string& target,
                      const std::vector<Found>& found, const Ask& ask);
  Status heal_newest(const std::vector<Found>& found, const Ask& ask, std::string* note);

  Io& io_;
  LevelSettings settings_;
  std::string node_dir_, own_;
  std::vector<int> partners_;  // by rank, see choose_partners(); empty: not determined yet
  uint64_t partner_copies_ = 0;
  std::optional<Hash128> at_partner_;  // root hash of this rank's kept file if the partner has it
};

// DL_CHECKPOINT_NODE, or else the host's name, turned into a plain file name.
std::string this_node();

// Collective: returns, on all ranks, OK if all ranks pass OK, else the first failure.
Status agree_all(Group& group, const Status& mine);

}  // namespace dl::ckpt
