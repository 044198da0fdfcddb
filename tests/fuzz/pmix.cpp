// SPDX-License-Identifier: Apache-2.0
// Any bytes as what dl-pmix says to dlrun: a conversation through dlrun's exchange, beside a model of what is open and
// what is published. Each line is a message behind the number of the node that says it, "0{"type":"fence",...}"; or the
// end of a learner: "f4" that learner 4 has failed, "e4" that it has ended in order.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <vector>

#include "launcher/pmix/exchange.h"
#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {
namespace {

using namespace dl::pmix;

const std::vector<std::vector<int>> kRanks = {{0, 1}, {2, 3}, {4}};
constexpr int kNodes = 3;
constexpr int kLearners = 5;
constexpr int kMaxLines = 48;  // of one conversation
constexpr Limits kSmall{64, 4, 6, 64};

int node_of(int rank) {
  return rank / 2;
}

void can_be_read(const PmixMessage& message) {
  static FirstTime first_time;
  const std::string text = encode(message);
  if (!first_time(text)) return;
  auto again = decode(text);
  must(again && again->index() == message.index() && encode(*again) == text, "a message can be said again");
}

std::optional<PmixMessage> read(const std::string& text) {
  auto message = decode(text);
  if (!message) {
    must(!message.error().text.empty(), "an error has a sentence");
    return std::nullopt;
  }
  can_be_read(*message);
  return *std::move(message);
}

struct Question {
  int node;
  PmixMessage message;
};

class Conversation {
 public:
  void say(int node, PmixMessage message) {
    // Numbers of our own, so that each question is known by its number; a Got's is the sender's word.
    const int64_t id = next_++;
    std::visit([this, node, id](auto& m) { number(node, id, &m); }, message);
    if (const auto* got = std::get_if<Got>(&message)) must(got->id > 0, "what is out of range is refused");
    answers(exchange_.handle(node, message), &message, node);
  }
  void gone(int rank, bool failed) {
    if (failed && rank >= 0 && rank < kLearners) failed_.insert(rank);
    answers(exchange_.gone(rank, failed), nullptr, -1);
  }
  void nobody_waits() {
    for (int rank = 0; rank < kLearners; ++rank) gone(rank, true);
    for (const auto& open : open_)
      must(std::holds_alternative<Lookup>(open.second.message), "where all have failed nobody waits for one of them");
  }

 private:
  template <typename M>
  void number(int node, int64_t id, M* m) {
    constexpr bool kQuestion = std::is_same_v<M, Fence> || std::is_same_v<M, Get> || std::is_same_v<M, Publish> ||
                               std::is_same_v<M, Lookup> || std::is_same_v<M, Unpublish> || std::is_same_v<M, Abort>;
    if constexpr (kQuestion) {
      m->id = id;
      open_[id] = {node, *m};
    }
  }

  // Takes the question that this answers, which is one of `Kinds`.
  template <typename... Kinds>
  PmixMessage answered(int node, int64_t id, bool last = true) {
    const auto open = open_.find(id);
    must(open != open_.end() && open->second.node == node, "only what was asked is answered, once, to who asked");
    PmixMessage question = last ? std::move(open->second.message) : open->second.message;
    must((std::holds_alternative<Kinds>(question) || ...), "an answer is of its question's kind");
    if (last) open_.erase(open);
    return question;
  }

  void answers(const Exchange::Answers& all, const PmixMessage* said, int from) {
    for (const auto& [node, message] : all) {
      must(node >= 0 && node < kNodes, "an answer goes to a node of the job");
      can_be_read(message);
      if (const auto* part = std::get_if<FencePart>(&message)) {
        answered<Fence>(node, part->id, false);
      } else if (const auto* done = std::get_if<Done>(&message)) {
        store(node, answered<Fence, Publish, Unpublish, Abort>(node, done->id), done->status);
      } else if (const auto* found = std::get_if<Found>(&message)) {
        look(std::get<Lookup>(answered<Lookup>(node, found->id)), *found);
      } else if (const auto* got = std::get_if<Got>(&message)) {
        answered<Get>(node, got->id);
      } else if (const auto* get = std::get_if<Get>(&message)) {
        must(get->id > last_get_ && node == node_of(get->rank), "the rank's own node is asked, by a new number");
        last_get_ = get->id;
      } else {
        const auto* event = std::get_if<Event>(&message);
        must(event != nullptr && said != nullptr && node != from && node_of(event->rank) == from,
             "nothing else is said, but a learner's own event to the other nodes");
      }
    }
    bounded();
  }

  void store(int node, const PmixMessage& question, int status) {
    if (status != kSuccess) return;
    if (const auto* publish = std::get_if<Publish>(&question)) {
      must(publish->rank < kLearners && node_of(publish->rank) == node, "nobody publishes for others");
      for (const Entry& entry : publish->entries)
        must(stored_.emplace(entry.key, Entry{entry.key, entry.data, publish->rank}).second, "a name is there once");
    }
    if (const auto* unpublish = std::get_if<Unpublish>(&question))
      for (auto at = stored_.begin(); at != stored_.end();) {
        const auto& keys = unpublish->keys;
        const bool named = keys.empty() || std::find(keys.begin(), keys.end(), at->first) != keys.end();
        at = named && at->second.rank == unpublish->rank ? stored_.erase(at) : std::next(at);
      }
  }

  void look(const Lookup& question, const Found& found) {
    if (found.status == kOutOfResource) return must(found.entries.empty(), "what is too large is not given");
    size_t there = 0;
    for (const std::string& key : question.keys) there += stored_.count(key);
    must(there == found.entries.size() && (there == 0) == (found.status == kNotFound), "what is there is found");
    for (const Entry& entry : found.entries) {
      const auto at = stored_.find(entry.key);
      must(at != stored_.end() && at->second.data.bytes == entry.data.bytes && at->second.rank == entry.rank,
           "what is found is what was published");
    }
  }

  void bounded() const {
    size_t fenced = 0, lookups = 0, gets = 0, stored = 0;
    std::map<std::pair<std::string, std::vector<int>>, std::map<int, int>> fences;
    for (const auto& [id, question] : open_) {
      if (const auto* fence = std::get_if<Fence>(&question.message)) {
        fenced += fence->data.bytes.size();
        ++fences[{fence->kind, fence->ranks}][question.node];
      } else if (const auto* get = std::get_if<Get>(&question.message)) {
        ++gets;
        must(failed_.count(get->rank) == 0, "nobody waits for what a failed learner has put");
      } else {
        const auto* lookup = std::get_if<Lookup>(&question.message);
        must(lookup != nullptr && lookup->wait, "everything else is answered at once");
        ++lookups;
        must(std::any_of(lookup->keys.begin(), lookup->keys.end(), [&](const auto& k) { return !stored_.count(k); }),
             "who waits for names waits for one that is not there");
      }
    }
    for (const auto& [key, in] : fences) {
      std::set<int> nodes;
      for (const int rank : key.second) nodes.insert(node_of(rank));
      for (int node = 0; key.second.empty() && node < kNodes; ++node) nodes.insert(node);
      must(std::any_of(nodes.begin(), nodes.end(), [&in = in](int n) { return in.count(n) == 0; }),
           "a fence that all are in has ended");
      for (const int rank : failed_)
        must(!key.second.empty() && !std::binary_search(key.second.begin(), key.second.end(), rank),
             "nobody waits in a fence with a failed learner");
    }
    for (const auto& [name, entry] : stored_) stored += entry.data.bytes.size();
    must(fenced <= kSmall.fenced && lookups <= kSmall.open && gets <= kSmall.open && fences.size() <= kSmall.open &&
             stored <= kSmall.stored && stored_.size() <= kSmall.keys,
         "memory is bounded");
  }

  Exchange exchange_{kRanks, kSmall};
  int64_t next_ = 1, last_get_ = 0;
  std::map<int64_t, Question> open_;
  std::map<std::string, Entry> stored_;
  std::set<int> failed_;
};

}  // namespace

void pmix(const uint8_t* data, size_t size) {
  Conversation conversation;
  const uint8_t* const end = data + size;
  int lines = 0;
  for (const uint8_t* at = data; at < end && lines < kMaxLines; ++lines) {
    const uint8_t* const line_end = std::find(at, end, uint8_t{'\n'});
    const std::string line(at, line_end);
    at = line_end + (line_end < end ? 1 : 0);
    if (line.empty()) continue;
    if (line[0] == 'f' || line[0] == 'e') {
      conversation.gone(line.size() > 1 ? line[1] & 7 : 0, line[0] == 'f');
    } else if (auto message = read(line.substr(1))) {
      conversation.say(static_cast<uint8_t>(line[0]) % kNodes, *std::move(message));
    }
  }
  conversation.nobody_waits();
}

}  // namespace dl::ckpt::fuzz
