// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/client.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/little_endian.h"
#include "launcher/pool/secret.h"

namespace dl::pool {
namespace {

constexpr int64_t kMostWaitMs = AwakeClock::kMostMs / 2;  // so that the clock counts all the time that is waited

}  // namespace

Client::Client(std::string directory, std::string address, std::string secret, double timeout_s, uint64_t id)
    : directory_(std::move(directory)),
      address_(std::move(address)),
      hub_(std::move(secret)),
      core_(id, kSlots),
      timeout_s_(timeout_s) {}

Result<std::unique_ptr<Client>> Client::open(std::string directory, std::string secret, double timeout_s) {
  // The host is looked up here and not in a call, because a name server may take long to answer.
  DL_TRY_ASSIGN(std::string address, numeric_endpoint(directory));
  DL_TRY_ASSIGN(const std::string id, random_bytes(8));
  std::unique_ptr<Client> client(
      new Client(std::move(directory), std::move(address), std::move(secret), timeout_s, get_little(id, 0, 8)));
  DL_TRY(client->hub_.open());
  return client;
}

Status Client::call(std::vector<Call>* calls) {
  if (abandoned_)
    return Error{Errc::kBusy, "a call to the pool was not carried out to its end, so this client can only be closed"};
  // Also if an exception passes: the core then still points to these calls, which may be gone when this returns.
  abandoned_ = true;
  core_.begin(calls);
  return until_done(static_cast<int64_t>(1000 * timeout_s_));
}

void Client::farewell(double limit_s) {
  if (std::exchange(abandoned_, true)) return;
  core_.farewell();
  ignore(until_done(static_cast<int64_t>(1000 * limit_s)), "the pool may be gone; then nobody remembers this client");
}

Status Client::until_done(int64_t limit_ms) {
  const int64_t until = now_ms() + limit_ms;
  while (!core_.done()) {
    const int64_t now = now_ms();
    if (now >= until)
      return Error{Errc::kTimeout, (met_directory_ ? "the pool" : "the directory of the pool") + (" at " + directory_) +
                                       " did not answer within " + std::to_string(limit_ms / 1000) + " s"};
    for (const ClientPost& post : core_.due(now)) send(post);
    const int64_t next = core_.next_ms();
    const int64_t most = std::min(until - now, kMostWaitMs);
    const int64_t pause = next < 0 ? most : std::clamp<int64_t>(next - now, 1, most);
    for (const Event& event : hub_.wait(core_.done() ? 0 : pause)) take(event);
  }
  abandoned_ = false;
  return {};
}

void Client::send(const ClientPost& post) {
  auto found = links_.find(post.to);
  if (found == links_.end()) {
    const std::string* address = post.to == 0 ? &address_ : core_.address(post.to);
    auto link = address == nullptr ? Result<Link>(Error{}) : hub_.connect(*address, Who::kClient);
    if (!link) return core_.broken(post.to, now_ms());
    found = links_.emplace(post.to, *link).first;
    who_[*link] = post.to;
  }
  hub_.send(found->second, post.message);
}

void Client::take(const Event& event) {
  const auto found = who_.find(event.link);
  if (found == who_.end()) return;
  const MemberId who = found->second;
  switch (event.what) {
    case Event::What::kOpened:
      if (who == 0) met_directory_ = true;
      return;
    case Event::What::kMessage:
      if (event.message.kind == Kind::kTable && who == 0) core_.table(event.message, now_ms());
      if (event.message.kind == Kind::kAnswer && who != 0) core_.answered(event.message, now_ms());
      return;
    case Event::What::kClosed:
      who_.erase(found);
      links_.erase(who);
      return core_.broken(who, now_ms());
  }
}

}  // namespace dl::pool
