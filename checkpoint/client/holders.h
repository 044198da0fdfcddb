// SPDX-License-Identifier: Apache-2.0
// Finds out which ranks hold which box of the tensors that are registered with DLCKPT_REPLICATED and a box (2-D meshes,
// HSDP). Ranks with the same box hold the same values, and one of them writes the box. A rank knows only its own boxes
// and must ask for those of the others.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/client/registry.h"
#include "checkpoint/group/group.h"

namespace dl::ckpt {

struct BoxHolders {
  Box box;
  std::vector<int> ranks;  // rising
};

class Holders {
 public:
  // Collective; only needed if Registry::needs_holders(). One small exchange through the group, and a second one if any
  // rank's boxes have changed since the last call. kInvalid if ranks registered different tensors; also the group's
  // errors.
  Status learn(Group& group, const Registry& registry);

  // The boxes of one tensor, in the order of their first holders; empty if they are not known.
  const std::vector<BoxHolders>& of(const std::string& path) const;
  // A text that changes whenever the known holders change; it is the same on all ranks.
  const std::string& version() const { return version_; }

 private:
  Status understand(const Registry& registry, const std::vector<std::string>& texts);

  std::string version_;
  std::map<std::string, std::vector<BoxHolders>> boxes_;
};

}  // namespace dl::ckpt
