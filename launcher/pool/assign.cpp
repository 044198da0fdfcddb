// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/assign.h"

#include <algorithm>
#include <map>

namespace dl::pool {
namespace {

// How many of the slots each member has, and may have.
class Shares {
 public:
  // has: how many each member has now. Those that have most may keep one more than the others.
  Shares(std::map<MemberId, int> has, int slots) : has_(std::move(has)) {
    std::vector<MemberId> order;
    for (const auto& [member, count] : has_) order.push_back(member);
    std::stable_sort(order.begin(), order.end(), [this](MemberId a, MemberId b) { return has_[a] > has_[b]; });
    const int members = static_cast<int>(order.size());
    for (int i = 0; i < members; ++i)
      quota_[order[static_cast<size_t>(i)]] = slots / members + (i < slots % members ? 1 : 0);
  }

  bool knows(MemberId member) const { return has_.count(member) != 0; }
  int room(MemberId member) const {
    const auto found = has_.find(member);
    return found == has_.end() ? 0 : quota_.at(member) - found->second;
  }
  void give(MemberId member) { ++has_[member]; }
  void take(MemberId member) { --has_[member]; }
  // The member with most room, apart from one; where nobody has any, the one that is over by least. 0: there is no
  // other.
  MemberId emptiest(MemberId apart_from) const {
    MemberId best = 0;
    for (const auto& [member, count] : has_)
      if (member != apart_from && (best == 0 || room(member) > room(best))) best = member;
    return best;
  }

 private:
  std::map<MemberId, int> has_, quota_;
};

std::map<MemberId, int> nothing_each(const std::vector<MemberId>& members) {
  std::map<MemberId, int> has;
  for (const MemberId member : members) has[member] = 0;
  return has;
}

MemberId with_room(const Shares& shares, const std::vector<MemberId>& among, MemberId apart_from) {
  for (const MemberId member : among)
    if (member != apart_from && shares.room(member) > 0) return member;
  return 0;
}

void assign_owners(const std::vector<Held>& now, Shares* shares, std::vector<Wish>* wish) {
  const auto settle = [&](size_t slot, MemberId owner) {
    (*wish)[slot].owner = owner;
    shares->give(owner);
  };
  const auto homeless = [&](size_t slot) { return (*wish)[slot].owner == 0; };
  const auto too_many = [&](size_t slot) {
    return shares->knows(now[slot].owner) && (*wish)[slot].owner == now[slot].owner &&
           shares->room(now[slot].owner) < 0;
  };
  for (size_t slot = 0; slot < now.size(); ++slot)
    if (shares->knows(now[slot].owner)) (*wish)[slot].owner = now[slot].owner;
  // First what costs nothing: to where the copy lies.
  for (size_t slot = 0; slot < now.size(); ++slot) {
    if (!homeless(slot) && !too_many(slot)) continue;
    const MemberId holder = with_room(*shares, now[slot].copies, now[slot].owner);
    if (holder == 0) continue;
    if (!homeless(slot)) shares->take(now[slot].owner);
    settle(slot, holder);
  }
  for (size_t slot = 0; slot < now.size(); ++slot) {
    if (!homeless(slot) && !too_many(slot)) continue;
    if (!homeless(slot)) shares->take(now[slot].owner);
    settle(slot, shares->emptiest(0));
  }
}

void assign_copies(const std::vector<Held>& now, const std::vector<MemberId>& members, std::vector<Wish>* wish) {
  // Those that hold the state of a slot already, the old owner among them.
  std::vector<std::vector<MemberId>> holders(now.size());
  std::map<MemberId, int> has = nothing_each(members);
  for (size_t slot = 0; slot < now.size(); ++slot) {
    holders[slot] = now[slot].copies;
    holders[slot].push_back(now[slot].owner);
    for (const MemberId member : now[slot].copies)
      if (has.count(member) != 0 && member != (*wish)[slot].owner) ++has[member];
  }
  Shares shares(has, static_cast<int>(now.size()));
  for (const auto& [member, count] : has)
    for (int i = 0; i < count; ++i) shares.take(member);
  const auto settle = [&](size_t slot, MemberId copy) {
    (*wish)[slot].copy = copy;
    if (copy != 0) shares.give(copy);
  };
  for (size_t slot = 0; slot < now.size(); ++slot) settle(slot, with_room(shares, holders[slot], (*wish)[slot].owner));
  for (size_t slot = 0; slot < now.size(); ++slot)
    if ((*wish)[slot].copy == 0) settle(slot, shares.emptiest((*wish)[slot].owner));
}

}  // namespace

std::vector<Wish> assign(const std::vector<Held>& now, std::vector<MemberId> members, bool with_copies) {
  std::vector<Wish> wish(now.size());
  if (members.empty()) return wish;
  std::sort(members.begin(), members.end());
  std::map<MemberId, int> has = nothing_each(members);
  for (const Held& held : now)
    if (const auto found = has.find(held.owner); found != has.end()) ++found->second;
  Shares shares(has, static_cast<int>(now.size()));
  assign_owners(now, &shares, &wish);
  if (with_copies && members.size() > 1) assign_copies(now, members, &wish);
  return wish;
}

}  // namespace dl::pool
