// SPDX-License-Identifier: Apache-2.0
// What comes over connections of an elastic pool: messages, lists and tables in them, proofs, and the updates that a
// slot has seen. First byte: which.
#include <map>
#include <string>

#include "launcher/pool/message.h"
#include "launcher/pool/once.h"
#include "launcher/pool/proof.h"
#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {
namespace {

using namespace dl::pool;

void try_message(const std::string& bytes) {
  const auto message = decode(bytes);
  if (!message) return;
  must(message->key.size() <= kMostKey && message->key.size() + message->bytes.size() + kHeadBytes == bytes.size(),
       "key and bytes are those of the message, and no key is too long");
  std::string again = "before";
  encode(*message, &again);
  std::string wanted = "before";
  for (int i = 0; i < 4; ++i) wanted += static_cast<char>(bytes.size() >> (8 * i));
  must(again == wanted + bytes, "a message that is written again is the same, led by its length");
}

void try_members(const std::string& bytes) {
  const auto members = read_members(bytes);
  if (!members) return;
  bool bounded = members->size() <= kMostMembers;
  for (const Peer& member : *members) bounded = bounded && member.address.size() <= 64;
  must(bounded, "members and their addresses are not too many and not too long");
  must(write_members(*members) == bytes, "members that are written again are the same");
}

void try_ids(const std::string& bytes) {
  const auto ids = read_ids(bytes);
  if (!ids) return;
  must(ids->size() <= kMostMembers, "copies are not too many");
  must(write_ids(*ids) == bytes, "copies that are written again are the same");
}

void try_table(const std::string& bytes) {
  const auto table = read_table(bytes);
  if (!table) return;
  must(table->lost.size() == table->owners.size(), "of each slot it is known whether it is lost");
  // Any byte but 0 means yes, so that the bytes may differ, but not how many they are.
  const std::string written = write_table(*table);
  must(written.size() == bytes.size(), "a table has nothing beside what it says");
  const auto again = read_table(written);
  must(again && again->version == table->version && again->ready == table->ready && again->lost == table->lost &&
           again->owners == table->owners && write_members(again->members) == write_members(table->members),
       "a table that is written again says the same");
}

void try_proofs(Bytes* input) {
  const std::string secret(kSecretBytes, 's');
  const auto change = static_cast<size_t>(input->u8()), bit = static_cast<size_t>(input->u8() % 8);
  Introduction mine;
  mine.who = static_cast<Who>(1 + input->u8() % 3);
  mine.member = static_cast<uint32_t>(input->number(4));
  for (char& c : mine.nonce) c = static_cast<char>(input->u8());
  Nonce acceptor{};
  for (char& c : acceptor) c = static_cast<char>(input->u8());
  const std::string foreign = input->rest();
  if (const auto nonce = read_challenge(foreign)) must(challenge(*nonce) == foreign, "a challenge is itself");
  must(!read_introduction(secret, acceptor, foreign) && !is_confirmed(secret, acceptor, mine, foreign),
       "nobody guesses a proof");
  const auto changed = [&](std::string bytes) {
    bytes[change % bytes.size()] = static_cast<char>(bytes[change % bytes.size()] ^ (1 << bit));
    return bytes;
  };
  const std::string introduced = introduce(secret, acceptor, mine), confirmed = confirm(secret, acceptor, mine);
  const auto taken = read_introduction(secret, acceptor, introduced);
  must(taken && taken->who == mine.who && taken->member == mine.member && taken->nonce == mine.nonce &&
           is_confirmed(secret, acceptor, mine, confirmed),
       "a right proof is taken, and says who it is");
  must(!read_introduction(secret, acceptor, changed(introduced)) &&
           !is_confirmed(secret, acceptor, mine, changed(confirmed)),
       "a changed one is not");
  must(!is_confirmed(secret, acceptor, mine, introduced.substr(kIntroductionBytes - kConfirmationBytes)),
       "nobody's own proof confirms him");
}

void try_saved_once(const std::string& bytes) {
  const auto once = Once::read(bytes);
  if (!once) return;
  must(once->clients() <= kMostClients, "remembered clients are bounded");
  std::string written;
  once->write(&written);
  const auto again = Once::read(written);
  must(written.size() == bytes.size() && again && *again == *once,
       "a table of updates that is written again is the same");
}

// Updates of four clients, in whatever order, and the slot moves in between.
void try_updates(Bytes* input) {
  Once once;
  std::map<uint64_t, uint64_t> applied;
  while (!input->empty()) {
    const uint8_t what = input->u8();
    const uint64_t client = what % 4, number = input->u8() % 8;
    if (what / 4 % 8 == 7) {
      std::string bytes;
      once.write(&bytes);
      auto moved = Once::read(bytes);
      must(moved && *moved == once, "a slot that moves takes along what it has seen");
      once = std::move(moved).value();
      continue;
    }
    const uint64_t last = applied.count(client) != 0 ? applied[client] : 0;
    const Once::Verdict verdict = once.judge(client, number);
    must((verdict == Once::Verdict::kApply) == (number == last + 1),
         "each update is applied once, and after the one before");
    if (verdict == Once::Verdict::kApply) {
      applied[client] = number;
      once.note(client, number, {what / 32 % 2 != 0, std::to_string(number)});
    } else if (verdict == Once::Verdict::kRepeat) {
      must(once.last(client).bytes == std::to_string(last), "what is asked again is answered as before");
    }
  }
}

}  // namespace

void pool_messages(const uint8_t* data, size_t size) {
  Bytes input(data, size);
  switch (input.u8() % 7) {
    case 0:
      return try_message(input.rest());
    case 1:
      return try_members(input.rest());
    case 2:
      return try_ids(input.rest());
    case 3:
      return try_table(input.rest());
    case 4:
      return try_proofs(&input);
    case 5:
      return try_saved_once(input.rest());
    default:
      return try_updates(&input);
  }
}

}  // namespace dl::ckpt::fuzz
