// SPDX-License-Identifier: Apache-2.0
// The first bytes on a connection of a pool, by which both ends prove that they know the pool's secret, as ranks that
// save together do (checkpoint/transport/wire.h). Nothing is encrypted. Pure.
//
// acceptor -> connector   magic "DLPA", version u32, nonce (16 bytes)
// connector -> acceptor   magic "DLPC", who u32, member u32, nonce (16 bytes), proof (32 bytes)
// acceptor -> connector   proof (32 bytes)
// A proof is HMAC-SHA256(secret, "connector" or "acceptor", both nonces, who, member).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dl::pool {

// kJoiner: a member's connection to the directory; kMember: to another member.
enum class Who : uint32_t { kClient = 1, kJoiner = 2, kMember = 3 };

using Nonce = std::array<char, 16>;

constexpr size_t kSecretBytes = 32;
constexpr size_t kChallengeBytes = 4 + 4 + 16;
constexpr size_t kIntroductionBytes = 4 + 4 + 4 + 16 + 32;
constexpr size_t kConfirmationBytes = 32;

struct Introduction {
  Who who = Who::kClient;
  uint32_t member = 0;  // of kMember
  Nonce nonce{};
};

std::string challenge(const Nonce& acceptor);
std::optional<Nonce> read_challenge(std::string_view bytes);
std::string introduce(const std::string& secret, const Nonce& acceptor, const Introduction& introduction);
// None if the proof is wrong.
std::optional<Introduction> read_introduction(const std::string& secret, const Nonce& acceptor, std::string_view bytes);
std::string confirm(const std::string& secret, const Nonce& acceptor, const Introduction& introduction);
bool is_confirmed(const std::string& secret, const Nonce& acceptor, const Introduction& introduction,
                  std::string_view bytes);

}  // namespace dl::pool
