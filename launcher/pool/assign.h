// SPDX-License-Identifier: Apache-2.0
// Which member shall own which slot, and which shall hold its copy, when the members have changed. Pure.
//
// The rule. Each member owns as many slots as any other, or one more. Of all divisions with this property one is chosen
// that moves the fewest slots, and among these, slots move to members that already hold their copy where that is
// possible, because such a move costs nothing. Copies never lie at the owner, nor on its host if there are members on
// another one, so that the end of a host loses nothing either; they are divided as evenly as that allows.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/pool/slots.h"

namespace dl::pool {

struct Held {
  MemberId owner = 0;            // 0: nobody yet
  std::vector<MemberId> copies;  // members that hold a complete copy
};

struct Wish {
  MemberId owner = 0;
  MemberId copy = 0;  // 0: none
};

// now: of each slot. members: those that shall hold slots, at least one, each once. Others that are named in `now` are
// about to leave. with_copies: each slot has a copy, if there are two members. hosts: of members; one that is not named
// counts as being on a host of its own.
std::vector<Wish> assign(const std::vector<Held>& now, std::vector<MemberId> members, bool with_copies,
                         const std::map<MemberId, std::string>& hosts = {});

}  // namespace dl::pool
