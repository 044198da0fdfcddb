// SPDX-License-Identifier: Apache-2.0
// Who holds which box of the tensors that are registered with DLCKPT_REPLICATED and a box (2-D meshes, HSDP): ranks
// that name the same box hold the same values, and one of them writes it. No rank knows the others' boxes by itself.
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
  // Collective, wherever Registry::needs_holders(): one small round through the group, and a second one if any rank's
  // boxes are others than last time. kInvalid if ranks registered different tensors; the group's errors.
  Status learn(Group& group, const Registry& registry);

  // The boxes of one tensor, in the order of their first holder; empty if not known.
  const std::vector<BoxHolders>& of(const std::string& path) const;
  // Changes whenever what is known changes, the same on all ranks.
  const std::string& version() const { return version_; }

 private:
  Status understand(const Registry& registry, const std::vector<std::string>& texts);

  std::string version_;
  std::map<std::string, std::vector<BoxHolders>> boxes_;
};

}  // namespace dl::ckpt
