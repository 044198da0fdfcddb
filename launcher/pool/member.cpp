// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/member.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <set>
#include <utility>

#include "common/base/clock.h"

namespace dl::pool {
namespace {

constexpr int64_t kSayMs = 200;
constexpr int64_t kAgainMs = 20;
constexpr int64_t kDrainMs = 2000;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

template <typename Body>
Result<Answer> MeasuredObject::measured(uint64_t* count, Body&& body) {
  const int64_t begin = now_ns();
  Result<Answer> answer = body();
  load_.busy_seconds += 1e-9 * static_cast<double>(now_ns() - begin);
  ++*count;
  return answer;
}

Result<Answer> MeasuredObject::apply(int slot, std::string_view key, std::string_view bytes) {
  return measured(&load_.updates, [&] { return object_->apply(slot, key, bytes); });
}

Result<Answer> MeasuredObject::read(int slot, std::string_view key, std::string_view bytes) {
  return measured(&load_.reads, [&] { return object_->read(slot, key, bytes); });
}

Load MeasuredObject::take() {
  Load load = std::exchange(load_, {});
  const int64_t now = now_ns();
  const double cpu = cpu_seconds();
  if (since_ns_ != 0) {
    load.seconds = 1e-9 * static_cast<double>(now - since_ns_);
    load.cpu_seconds = cpu - cpu_before_;
  }
  since_ns_ = now;
  cpu_before_ = cpu;
  return load;
}

Member::Member(std::string directory, std::string address, std::string secret, Object* object)
    : directory_(std::move(directory)),
      address_(std::move(address)),
      hub_(std::move(secret)),
      object_(object),
      core_(&object_, kSlots) {}

Result<std::unique_ptr<Member>> Member::create(std::string directory, std::string secret, Object* object) {
  DL_TRY_ASSIGN(std::string address, numeric_endpoint(directory));
  std::unique_ptr<Member> member(new Member(std::move(directory), std::move(address), std::move(secret), object));
  DL_TRY(member->hub_.open());
  return member;
}

void Member::leave() {
  asked_to_leave_ = true;
  hub_.wake();
}

Status Member::join() {
  DL_TRY_ASSIGN(directory_link_, hub_.connect(address_, Who::kJoiner));
  return {};
}

Status Member::serve() {
  // Clients that wait for an answer of this member must see that they have to ask another one, and the directory that
  // it has ended; also if an exception passes.
  struct Shut {
    Hub* hub;
    ~Shut() { hub->shut(); }
  } const shut{&hub_};
  Status status = serve_on();
  if (status) hub_.drain(kDrainMs);
  return status;
}

Status Member::serve_on() {
  DL_TRY(join());
  object_.take();
  while (!core_.may_end()) {
    const std::vector<Event> events = hub_.wait(joined_ ? std::max<int64_t>(next_ms() - monotonic_ms(), 0) : -1);
    const auto calls = std::count_if(events.begin(), events.end(), [](const Event& event) {
      return event.message.kind == Kind::kUpdate || event.message.kind == Kind::kRead;
    });
    waiting_ = std::max(waiting_, static_cast<int>(calls));
    // The directory first: whoever was given up must not answer any more.
    for (const Event& event : events)
      if (event.link == directory_link_) DL_TRY(take(event));
    for (const Event& event : events)
      if (event.link != directory_link_ && !core_.may_end()) DL_TRY(take(event));
    if (joined_ && monotonic_ms() >= next_look_ms_) DL_TRY(say_wanted());
    say_leave();
    connect_again();
    send_posts();
  }
  return {};
}

// An error ends this member before anything leaves it of what it does here: no answer, and nothing for its copies.
Status Member::take(const Event& event) {
  DL_TRY(take_in(event));
  if (!core_.failure().empty()) return Error{Errc::kInternal, core_.failure()};
  return {};
}

Status Member::take_in(const Event& event) {
  if (event.what == Event::What::kOpened) {
    opened(event.link);
    if (event.link == directory_link_ && !joined_) {
      DL_TRY(hub_.listen(hub_.local_host(directory_link_), 0));
      Message join;
      join.kind = Kind::kJoin;
      join.bytes = endpoint(hub_.local_host(directory_link_), hub_.port());
      hub_.send(directory_link_, join);
      joined_ = true;
      next_look_ms_ = monotonic_ms() + kSayMs;
    }
    return {};
  }
  if (event.what == Event::What::kClosed) return closed(event.link);
  if (event.link == directory_link_) {
    core_.from_directory(event.message);
    if (event.message.kind == Kind::kMembers) forget_gone();
    return {};
  }
  if (!hub_.is_open(event.link)) return {};  // closed, because this peer has opened a newer connection, or is gone
  const Kind kind = event.message.kind;
  const auto is_any = [kind](std::initializer_list<Kind> kinds) {
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  };
  const auto peer = peer_of_.find(event.link);
  const Who who = hub_.who(event.link);
  if (peer != peer_of_.end() && is_any({Kind::kAck}))
    core_.acknowledged(peer->second, event.message);
  else if (peer == peer_of_.end() && who == Who::kMember && is_any({Kind::kInstall, Kind::kForward, Kind::kForget}))
    hub_.send(event.link, core_.from_member(event.message));
  else if (peer == peer_of_.end() && who == Who::kClient && is_any({Kind::kUpdate, Kind::kRead, Kind::kFarewell}))
    core_.from_client(event.link, event.message);
  else
    hang_up(event.link);
  return {};
}

// On whoever says what it may not. As if the connection had broken.
void Member::hang_up(Link link) {
  hub_.close(link);
  closed_peer(link);
}

// The new connection repeats all that is unacknowledged, so the old one is closed unread.
void Member::opened(Link link) {
  if (link == directory_link_ || peer_of_.count(link) != 0 || hub_.who(link) != Who::kMember) return;
  Link& place = accepted_[hub_.member(link)];
  if (place != 0) hub_.close(place);
  place = link;
}

Status Member::closed(Link link) {
  if (link == directory_link_) {
    if (core_.may_end()) return {};
    return Error{Errc::kIo,
                 joined_ ? "the directory of the pool at " + directory_ + " is gone"
                         : "the directory of the pool at " + directory_ + " does not answer, or has another secret"};
  }
  closed_peer(link);
  return {};
}

void Member::closed_peer(Link link) {
  const auto found = peer_of_.find(link);
  if (found == peer_of_.end()) return;
  again_ms_[found->second] = monotonic_ms() + kAgainMs;
  peers_.erase(found->second);
  peer_of_.erase(found);
}

// Else what was still to be sent to a host that is gone would be kept until the system gives the connection up.
void Member::forget_gone() {
  std::set<MemberId> present;
  for (const Peer& member : core_.members()) present.insert(member.id);
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    if (present.count(peer->first) != 0) {
      ++peer;
      continue;
    }
    hub_.close(peer->second);
    peer_of_.erase(peer->second);
    peer = peers_.erase(peer);
  }
  for (auto again = again_ms_.begin(); again != again_ms_.end();)
    again = present.count(again->first) != 0 ? std::next(again) : again_ms_.erase(again);
}

void Member::connect_again() {
  std::vector<MemberId> due;
  for (const auto& [peer, at_ms] : again_ms_)
    if (at_ms <= monotonic_ms()) due.push_back(peer);
  for (const MemberId peer : due) {
    send_posts();  // what was posted before goes nowhere, and is posted again below
    again_ms_.erase(peer);
    core_.again(peer);
  }
}

int64_t Member::next_ms() const {
  int64_t next = next_look_ms_;
  for (const auto& [peer, at_ms] : again_ms_) next = std::min(next, at_ms);
  return next;
}

void Member::send_to(MemberId peer, const Message& message) {
  if (again_ms_.count(peer) != 0) return;
  auto link = peers_.find(peer);
  if (link == peers_.end()) {
    const auto& members = core_.members();
    const auto found =
        std::find_if(members.begin(), members.end(), [peer](const Peer& member) { return member.id == peer; });
    if (found == members.end()) return;
    auto opened = hub_.connect(found->address, Who::kMember, core_.id());
    if (!opened) {
      again_ms_[peer] = monotonic_ms() + kAgainMs;
      return;
    }
    link = peers_.emplace(peer, *opened).first;
    peer_of_[*opened] = peer;
  }
  hub_.send(link->second, message);
}

void Member::send_posts() {
  for (const MemberPost& post : core_.posts()) {
    if (post.to == MemberPost::To::kDirectory)
      hub_.send(directory_link_, post.message);
    else if (post.to == MemberPost::To::kMember)
      send_to(static_cast<MemberId>(post.id), post.message);
    else
      hub_.send(post.id, post.message);
  }
}

Status Member::say_wanted() {
  next_look_ms_ = monotonic_ms() + kSayMs;
  Load load = object_.take();
  load.members = static_cast<int>(core_.members().size());
  load.queued = std::exchange(waiting_, 0);
  DL_TRY_ASSIGN(const int wanted, object_.wanted(load));
  Message message;
  message.kind = Kind::kWanted;
  message.number = static_cast<uint64_t>(std::max(wanted, 1));
  hub_.send(directory_link_, message);
  return {};
}

void Member::say_leave() {
  if (!joined_ || !asked_to_leave_ || std::exchange(said_so_, true)) return;
  Message message;
  message.kind = Kind::kLeave;
  hub_.send(directory_link_, message);
}

}  // namespace dl::pool
