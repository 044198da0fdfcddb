// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/holders.h"

#include <algorithm>

#include "checkpoint/client/box_text.h"
#include "checkpoint/group/messages.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

constexpr const char* kKnown = "known";
constexpr const char* kTell = "tell";

// One line for each tensor that is replicated and has boxes.
std::string describe_boxes(const Registry& registry) {
  std::string text;
  for (const auto& [path, tensor] : registry.tensors()) {
    if (!tensor.replicated() || !tensor.boxed()) continue;
    text += format_boxes(tensor) + "\n";
  }
  return text;
}

// Rank 0: makes the answer to what all ranks reported in the first round.
std::string judge(const std::vector<std::string>& said) {
  std::string boxes;
  std::vector<std::vector<std::string>> words;
  for (const std::string& one : said) {
    words.push_back(split(one, ' '));
    if (words.back().size() != 3)
      return say_error(
          Error{Errc::kInternal,
                "a message of another rank about its tensors cannot be read; all ranks need the same libdlckpt"});
    boxes += words.back()[1];
  }
  for (size_t rank = 0; rank < words.size(); ++rank)
    if (words[rank][0] != words[0][0])
      return say_error(Error{Errc::kInvalid, "rank " + std::to_string(rank) +
                                                 " registered other tensors than rank 0: names, dtypes, shapes and "
                                                 "DLCKPT_REPLICATED must be the same on all ranks"});
  const std::string version = to_hex(hash_bytes(boxes.data(), boxes.size()));
  bool known = true;
  for (const auto& word : words) known = known && word[2] == version;
  return say_ok(std::string(known ? kKnown : kTell) + " " + version);
}

}  // namespace

Status Holders::learn(Group& group, const Registry& registry) {
  const std::string mine = describe_boxes(registry);
  const std::string said = to_hex(registry.fingerprint()) + " " + to_hex(hash_bytes(mine.data(), mine.size())) + " " +
                           (version_.empty() ? "-" : version_);
  DL_TRY_ASSIGN(const std::vector<std::string> all, group.gather(said));
  DL_TRY_ASSIGN(const std::string answer, group.broadcast(group.rank() == 0 ? judge(all) : std::string(), 2));
  DL_TRY_ASSIGN(const std::string verdict, hear(answer));
  const auto words = split(verdict, ' ');
  if (words.size() != 2)
    return Error{Errc::kInternal,
                 "a message of rank 0 about all tensors cannot be read; all ranks need the same libdlckpt"};
  if (words[0] == kKnown) return {};

  version_.clear();
  DL_TRY_ASSIGN(const std::vector<std::string> texts, group.gather(mine));
  DL_TRY_ASSIGN(const std::string joined, group.broadcast(group.rank() == 0 ? join_texts(texts) : std::string(), 2));
  DL_TRY_ASSIGN(const std::vector<std::string> parts, split_texts(joined));
  if (parts.size() != static_cast<size_t>(group.size()))
    return Error{Errc::kInternal, "rank 0 told of " + std::to_string(parts.size()) + " ranks, and there are " +
                                      std::to_string(group.size())};
  DL_TRY(understand(registry, parts));
  version_ = words[1];
  return {};
}

Status Holders::understand(const Registry& registry, const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<BoxHolders>> found;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const auto lines = split(texts[rank], '\n');
    size_t line = 0;
    for (const auto& [path, tensor] : registry.tensors()) {
      if (!tensor.replicated() || !tensor.boxed()) continue;
      if (line >= lines.size()) return Error{Errc::kInternal, "rank " + std::to_string(rank) + " named too few boxes"};
      DL_TRY_ASSIGN(const std::vector<Box> boxes, parse_boxes(lines[line++], tensor.shape()));
      std::vector<BoxHolders>& known = found[path];
      for (const Box& box : boxes) {
        if (volume(box.extent).value_or(0) == 0) continue;
        auto at = std::find_if(known.begin(), known.end(), [&](const BoxHolders& one) { return one.box == box; });
        if (at == known.end()) at = known.insert(known.end(), BoxHolders{box, {}});
        at->ranks.push_back(static_cast<int>(rank));
      }
    }
  }
  boxes_ = std::move(found);
  return {};
}

const std::vector<BoxHolders>& Holders::of(const std::string& path) const {
  static const std::vector<BoxHolders> kNobody;
  const auto at = boxes_.find(path);
  return at == boxes_.end() ? kNobody : at->second;
}

}  // namespace dl::ckpt
