// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/assign.h"

#include <algorithm>
#include <map>

namespace dl::pool {
namespace {

// How many of the slots each member has, and may have.
class Shares {
 public:
  // has: how many each member has now. Those that have most may keep one more than the others. All may have `most`.
  Shares(std::map<MemberId, int> has, int slots, int most = 0) : has_(std::move(has)) {
    std::vector<MemberId> order;
    for (const auto& [member, count] : has_) order.push_back(member);
    std::stable_sort(order.begin(), order.end(), [this](MemberId a, MemberId b) { return has_[a] > has_[b]; });
    const int members = static_cast<int>(order.size());
    for (int i = 0; i < members; ++i)
      quota_[order[static_cast<size_t>(i)]] = std::max(most, slots / members + (i < slots % members ? 1 : 0));
  }

  bool knows(MemberId member) const { return has_.count(member) != 0; }
  int room(MemberId member) const {
    const auto found = has_.find(member);
    return found == has_.end() ? 0 : quota_.at(member) - found->second;
  }
  void give(MemberId member) { ++has_[member]; }
  void take(MemberId member) { --has_[member]; }
  // The member with most room; where nobody has any, the one that is over by least. 0: there is none.
  template <typename May>
  MemberId emptiest(const May& may) const {
    MemberId best = 0;
    for (const auto& [member, count] : has_)
      if (may(member) && (best == 0 || room(member) > room(best))) best = member;
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

template <typename May>
MemberId with_room(const Shares& shares, const std::vector<MemberId>& among, const May& may) {
  for (const MemberId member : among)
    if (may(member) && shares.room(member) > 0) return member;
  return 0;
}

// Which members may hold the copy of another one's slots.
class Hosts {
 public:
  Hosts(const std::vector<MemberId>& members, const std::map<MemberId, std::string>& names) : members_(members) {
    std::map<std::string, int> numbers;
    for (const MemberId member : members) {
      const auto named = names.find(member);
      const std::string name = named != names.end() ? named->second : " " + std::to_string(member);
      host_[member] = numbers.emplace(name, static_cast<int>(numbers.size())).first->second;
      ++on_[host_[member]];
    }
    // On one host alone, each member stands for itself.
    if (numbers.size() > 1) return;
    on_.clear();
    for (size_t i = 0; i < members.size(); ++i) on_[host_[members[i]] = static_cast<int>(i)] = 1;
  }
  bool apart(MemberId a, MemberId b) const { return host_.at(a) != host_.at(b); }
  // The most copies that a member must be able to hold, so that each slot of `wish` has a place apart from its owner.
  int most(const std::vector<Wish>& wish) const {
    std::map<int, int> owned;
    for (const Wish& each : wish) ++owned[host_.at(each.owner)];
    int most = 0;
    for (const auto& [host, slots] : owned) {
      const int others = static_cast<int>(members_.size()) - on_.at(host);
      most = std::max(most, (slots + others - 1) / others);
    }
    return most;
  }
  int beside(MemberId member) const { return on_.at(host_.at(member)); }  // how many are on its host

 private:
  const std::vector<MemberId>& members_;
  std::map<MemberId, int> host_;
  std::map<int, int> on_;
};

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
    const MemberId holder =
        with_room(*shares, now[slot].copies, [&](MemberId member) { return member != now[slot].owner; });
    if (holder == 0) continue;
    if (!homeless(slot)) shares->take(now[slot].owner);
    settle(slot, holder);
  }
  for (size_t slot = 0; slot < now.size(); ++slot) {
    if (!homeless(slot) && !too_many(slot)) continue;
    if (!homeless(slot)) shares->take(now[slot].owner);
    settle(slot, shares->emptiest([](MemberId) { return true; }));
  }
}

void assign_copies(const std::vector<Held>& now, const std::vector<MemberId>& members, const Hosts& hosts,
                   std::vector<Wish>* wish) {
  const auto may = [&](size_t slot) {
    return [&hosts, owner = (*wish)[slot].owner](MemberId member) { return hosts.apart(member, owner); };
  };
  // Those that hold the state of a slot already, the old owner among them.
  std::vector<std::vector<MemberId>> holders(now.size());
  std::map<MemberId, int> has = nothing_each(members);
  for (size_t slot = 0; slot < now.size(); ++slot) {
    holders[slot] = now[slot].copies;
    holders[slot].push_back(now[slot].owner);
    const auto is_gone = [&](MemberId member) { return has.count(member) == 0; };
    holders[slot].erase(std::remove_if(holders[slot].begin(), holders[slot].end(), is_gone), holders[slot].end());
    for (const MemberId member : now[slot].copies)
      if (has.count(member) != 0 && may(slot)(member)) ++has[member];
  }
  Shares shares(has, static_cast<int>(now.size()), hosts.most(*wish));
  for (const auto& [member, count] : has)
    for (int i = 0; i < count; ++i) shares.take(member);
  const auto settle = [&](size_t slot, MemberId copy) {
    (*wish)[slot].copy = copy;
    if (copy != 0) shares.give(copy);
  };
  for (size_t slot = 0; slot < now.size(); ++slot) settle(slot, with_room(shares, holders[slot], may(slot)));
  // Then those with the least choice first.
  std::vector<size_t> left;
  for (size_t slot = 0; slot < now.size(); ++slot)
    if ((*wish)[slot].copy == 0) left.push_back(slot);
  std::stable_sort(left.begin(), left.end(),
                   [&](size_t a, size_t b) { return hosts.beside((*wish)[a].owner) > hosts.beside((*wish)[b].owner); });
  // Where nobody apart from the owner has room, one of them gives a copy to somebody else, who has.
  const auto make_room = [&](size_t for_slot) {
    for (size_t slot = 0; slot < now.size(); ++slot) {
      const MemberId holder = (*wish)[slot].copy;
      if (holder == 0 || !may(for_slot)(holder)) continue;
      const MemberId other = shares.emptiest(may(slot));
      if (other == 0 || shares.room(other) <= 0) continue;
      shares.take(holder);
      return settle(slot, other);
    }
  };
  for (const size_t slot : left) {
    const MemberId best = shares.emptiest(may(slot));
    if (best != 0 && shares.room(best) <= 0) make_room(slot);
    settle(slot, shares.emptiest(may(slot)));
  }
}

}  // namespace

std::vector<Wish> assign(const std::vector<Held>& now, std::vector<MemberId> members, bool with_copies,
                         const std::map<MemberId, std::string>& hosts) {
  std::vector<Wish> wish(now.size());
  if (members.empty()) return wish;
  std::sort(members.begin(), members.end());
  std::map<MemberId, int> has = nothing_each(members);
  for (const Held& held : now)
    if (const auto found = has.find(held.owner); found != has.end()) ++found->second;
  Shares shares(has, static_cast<int>(now.size()));
  assign_owners(now, &shares, &wish);
  if (with_copies && members.size() > 1) assign_copies(now, members, Hosts(members, hosts), &wish);
  return wish;
}

}  // namespace dl::pool
