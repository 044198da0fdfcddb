// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/directory.h"

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

#include "common/base/clock.h"
#include "common/base/guard.h"

namespace dl::pool {
namespace {

constexpr int64_t kEndMs = 2000;  // for members to end when the pool is closed
constexpr int kMostReads = 256;   // of what has come, before somebody is given up

}  // namespace

Directory::Directory(DirectorySettings settings)
    : settings_(std::move(settings)),
      hub_(settings_.secret),
      core_(kSlots, settings_.rule.min, settings_.with_copies) {}

Result<std::unique_ptr<Directory>> Directory::open(DirectorySettings settings) {
  std::unique_ptr<Directory> directory(new Directory(std::move(settings)));
  DL_TRY(directory->hub_.open());
  DL_TRY(directory->hub_.listen(directory->settings_.listen, directory->settings_.port));
  directory->note_facts();
  DL_TRY(directory->start());
  return directory;
}

// Signals go to the program's own threads.
Status Directory::start() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits this mask
  Status started;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    started = errno_error("start the thread of a pool's directory", error.code().value());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

Directory::~Directory() {
  if (!thread_.joinable()) return;
  ending_ = true;
  hub_.wake();
  thread_.join();
}

DirectoryFacts Directory::facts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return facts_;
}

void Directory::note_facts() {
  const std::lock_guard<std::mutex> lock(mutex_);
  facts_.members = static_cast<int>(core_.staying().size());
  facts_.leaving = static_cast<int>(members_.size() + leaving_.size()) - facts_.members;
  facts_.wanted = std::max(memory_.size, settings_.rule.min);
  facts_.unsettled = core_.unsettled();
  facts_.lost = core_.lost_slots();
  facts_.moved = core_.moved();
  facts_.version = core_.version();
}

// What is thrown (for want of memory, or by `size`) ends the pool: members and clients see that it is gone.
void Directory::run() noexcept {
  guard(
      false, [](const char* /*what*/) {},
      [this] {
        serve();
        return true;
      });
  hub_.shut();
}

void Directory::serve() {
  next_look_ms_ = now_ms() + kLookMs;
  next_copy_ms_ = now_ms() + kCopyAgainMs;
  while (!ending_) {
    for (const Event& event : hub_.wait(std::max<int64_t>(next_look_ms_ - now_ms(), 0))) take(event);
    if (now_ms() >= next_look_ms_) {
      next_look_ms_ = now_ms() + kLookMs;
      give_up_silent();
      look();
      if (now_ms() >= next_copy_ms_) {
        next_copy_ms_ = now_ms() + kCopyAgainMs;
        core_.copy_again();
      }
    }
    send_posts();
    note_facts();
  }
  close_pool();
}

void Directory::take(const Event& event) {
  if (event.what == Event::What::kClosed) return gone(event.link);
  if (event.what == Event::What::kOpened || !hub_.is_open(event.link)) return;
  if (hub_.who(event.link) == Who::kClient && event.message.kind == Kind::kTableAsked) {
    Message answer;
    answer.kind = Kind::kTable;
    answer.bytes = write_table(core_.table());
    return hub_.send(event.link, answer);
  }
  if (leaving_.count(event.link) != 0) return;  // said before it knew that it may end
  if (hub_.who(event.link) != Who::kJoiner) return hub_.close(event.link);
  const auto known = links_.find(event.link);
  if (known == links_.end()) {
    if (event.message.kind != Kind::kJoin || members_.size() >= kMostMembers) return hub_.close(event.link);
    const MemberId id = core_.join(event.message.bytes.substr(0, 64));
    links_[event.link] = id;
    members_[id] = {event.link, 0, now_ms()};
    return;
  }
  Seen& seen = members_[known->second];
  seen.heard_ms = now_ms();
  if (event.message.kind == Kind::kWanted)
    seen.wanted = static_cast<int>(std::min<uint64_t>(event.message.number, kMostMembers));
  else
    core_.take(known->second, event.message);
}

void Directory::gone(Link link) {
  leaving_.erase(link);
  const auto known = links_.find(link);
  if (known == links_.end()) return;
  const MemberId id = known->second;
  links_.erase(known);
  members_.erase(id);
  core_.lost(id);
}

void Directory::give_up_silent() {
  const auto is_silent = [this](const auto& member) { return now_ms() - member.second.heard_ms > settings_.silent_ms; };
  if (std::none_of(members_.begin(), members_.end(), is_silent)) return;
  // One call reads some connections alone, so what they have said may be there unread.
  for (int i = 0; i < kMostReads; ++i) {
    const std::vector<Event> events = hub_.wait(0);
    if (events.empty()) break;
    for (const Event& event : events) take(event);
  }

  std::vector<Link> silent;
  for (const auto& member : members_)
    if (is_silent(member)) silent.push_back(member.second.link);
  for (const Link link : silent) {
    hub_.close(link);
    gone(link);
  }
}

void Directory::look() {
  const std::vector<MemberId> staying = core_.staying();
  const int present = static_cast<int>(staying.size());
  std::vector<int> wanted;
  for (const MemberId id : staying)
    if (members_[id].wanted > 0) wanted.push_back(members_[id].wanted);
  const int size = settings_.fixed ? settings_.rule.min : next_size(settings_.rule, wanted, present, &memory_);
  // Members that came by themselves are not sent away, unless somebody is there who starts others.
  if (settings_.size && present > size) core_.leave(staying.back());
  if (!settings_.size || (size == told_wanted_ && present == told_present_)) return;
  told_wanted_ = size;
  told_present_ = present;
  settings_.size(size, present);
}

void Directory::send_posts() {
  for (Post& post : core_.posts()) {
    const auto member = members_.find(post.to);
    if (member == members_.end()) continue;
    const Link link = member->second.link;
    hub_.send(link, post.message);
    if (post.message.kind != Kind::kBye) continue;
    // It closes the connection when it has read that.
    leaving_.insert(link);
    links_.erase(link);
    members_.erase(member);
  }
}

void Directory::close_pool() {
  Message bye;
  bye.kind = Kind::kBye;
  for (const auto& [id, seen] : members_) {
    hub_.send(seen.link, bye);
    leaving_.insert(seen.link);
  }
  const int64_t until = monotonic_ms() + kEndMs;
  while (!leaving_.empty() && monotonic_ms() < until)
    for (const Event& event : hub_.wait(50))
      if (event.what == Event::What::kClosed) leaving_.erase(event.link);
}

}  // namespace dl::pool
