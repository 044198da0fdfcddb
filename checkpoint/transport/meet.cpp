// SPDX-License-Identifier: Apache-2.0
// make_exchange: the ranks find one another's addresses in two rounds through the group. In the first they find out
// whether all are on one host; in the second, when each listens, who listens where. If anything goes wrong at one rank,
// all ranks go on without an exchange.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "checkpoint/group/messages.h"
#include "checkpoint/transport/tcp_exchange.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

constexpr const char* kNone = "none";

// A text that is equal on two ranks that can reach each other over loopback: they have the same boot of the same
// machine, and the same network namespace.
std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char name[64] = "";
  const ssize_t n = ::readlink("/proc/self/ns/net", name, sizeof name - 1);
  if (boot.empty() || n <= 0) return std::string();
  return boot + " " + std::string(name, static_cast<size_t>(n));
}

std::string text_from(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

// Computes, on rank 0, the answer to what all ranks have sent.
using Judge = std::string (*)(const std::vector<std::string>&);

Result<std::string> ask_all(Group& group, std::string mine, Judge judge) {
  DL_TRY_ASSIGN(const std::vector<std::string> all, group.gather(std::move(mine)));
  return group.broadcast(group.rank() == 0 ? judge(all) : std::string(), 2);
}

std::string judge_hosts(const std::vector<std::string>& all) {
  for (const std::string& one : all) {
    if (one == kNone) return kNone;
    if (one.empty() || one != all[0]) return "network";
  }
  return "loopback";
}

std::string judge_addresses(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& one : all) {
    if (one == kNone) return kNone;
    text += one + "\n";
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Exchange>> make_exchange(Group& group, double timeout_s) {
  std::unique_ptr<Exchange> none;
  if (group.size() == 1) return none;
  const auto secret = group.secret();
  const bool off = text_from("DL_CHECKPOINT_TRANSPORT") == "files" || !secret;
  DL_TRY_ASSIGN(const std::string hosts, ask_all(group, off ? kNone : host_identity(), judge_hosts));
  if (hosts == kNone) return none;

  const bool one_host = hosts == "loopback";
  Result<std::string> address = std::string("127.0.0.1");
  if (!one_host) address = own_address(text_from("DL_CHECKPOINT_INTERFACE"));
  Endpoint endpoint;
  auto listener = address ? listen_on(*address, &endpoint) : Result<UniqueFd>(address.error());
  DL_TRY_ASSIGN(const std::string addresses,
                ask_all(group, listener ? format_endpoint(endpoint) : kNone, judge_addresses));
  if (addresses == kNone || !listener) return none;

  std::vector<Endpoint> peers;
  for (const auto& line : split(addresses, '\n')) {
    if (line.empty()) continue;
    DL_TRY_ASSIGN(Endpoint peer, parse_endpoint(line));
    peers.push_back(std::move(peer));
  }
  if (peers.size() != static_cast<size_t>(group.size()))
    return Error{Errc::kInternal, "rank 0 named " + std::to_string(peers.size()) + " addresses"};
  auto exchange = make_tcp_exchange(group.rank(), *std::move(listener), std::move(peers), *secret, one_host, timeout_s);
  // If one rank could not start its thread, all ranks must know.
  DL_TRY_ASSIGN(const std::string verdict, ask_all(group, exchange ? "ok" : kNone, [](const auto& all) {
                  for (const std::string& one : all)
                    if (one == kNone) return std::string(kNone);
                  return std::string("ok");
                }));
  if (verdict == kNone || !exchange) return none;
  return exchange;
}

}  // namespace dl::ckpt
