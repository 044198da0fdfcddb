// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/proof.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>

#include "common/base/little_endian.h"

namespace dl::pool {
namespace {

constexpr uint64_t kVersion = 1;

std::string prove(const std::string& secret, std::string_view end, const Nonce& acceptor, const Introduction& by) {
  std::string text(end);
  text.append(acceptor.data(), acceptor.size());
  text.append(by.nonce.data(), by.nonce.size());
  put_little(&text, static_cast<uint64_t>(by.who), 4);
  put_little(&text, by.member, 4);
  hmac_sha256_ctx context;
  hmac_sha256_set_key(&context, secret.size(), reinterpret_cast<const uint8_t*>(secret.data()));
  hmac_sha256_update(&context, text.size(), reinterpret_cast<const uint8_t*>(text.data()));
  std::string digest(kConfirmationBytes, '\0');
  hmac_sha256_digest(&context, digest.size(), reinterpret_cast<uint8_t*>(digest.data()));
  return digest;
}

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && memeql_sec(a.data(), b.data(), a.size()) != 0;
}

}  // namespace

std::string challenge(const Nonce& acceptor) {
  std::string bytes = "DLPA";
  put_little(&bytes, kVersion, 4);
  bytes.append(acceptor.data(), acceptor.size());
  return bytes;
}

std::optional<Nonce> read_challenge(std::string_view bytes) {
  if (bytes.size() != kChallengeBytes || bytes.substr(0, 4) != "DLPA" || get_little(bytes, 4, 4) != kVersion)
    return std::nullopt;
  Nonce nonce{};
  bytes.copy(nonce.data(), nonce.size(), 8);
  return nonce;
}

std::string introduce(const std::string& secret, const Nonce& acceptor, const Introduction& introduction) {
  std::string bytes = "DLPC";
  put_little(&bytes, static_cast<uint64_t>(introduction.who), 4);
  put_little(&bytes, introduction.member, 4);
  bytes.append(introduction.nonce.data(), introduction.nonce.size());
  return bytes + prove(secret, "connector", acceptor, introduction);
}

std::optional<Introduction> read_introduction(const std::string& secret, const Nonce& acceptor,
                                              std::string_view bytes) {
  if (bytes.size() != kIntroductionBytes || bytes.substr(0, 4) != "DLPC") return std::nullopt;
  const uint64_t who = get_little(bytes, 4, 4);
  if (who < static_cast<uint64_t>(Who::kClient) || who > static_cast<uint64_t>(Who::kMember)) return std::nullopt;
  Introduction introduction;
  introduction.who = static_cast<Who>(who);
  introduction.member = static_cast<uint32_t>(get_little(bytes, 8, 4));
  bytes.copy(introduction.nonce.data(), introduction.nonce.size(), 12);
  if (!same(bytes.substr(28), prove(secret, "connector", acceptor, introduction))) return std::nullopt;
  return introduction;
}

std::string confirm(const std::string& secret, const Nonce& acceptor, const Introduction& introduction) {
  return prove(secret, "acceptor", acceptor, introduction);
}

bool is_confirmed(const std::string& secret, const Nonce& acceptor, const Introduction& introduction,
                  std::string_view bytes) {
  return same(bytes, prove(secret, "acceptor", acceptor, introduction));
}

}  // namespace dl::pool
