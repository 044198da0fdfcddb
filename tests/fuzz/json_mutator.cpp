// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/json_mutator.h"

#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "checkpoint/format/manifest_json.h"

namespace dl::ckpt::fuzz {
namespace {

constexpr size_t kMaxNodes = 4000;

void collect(nlohmann::json& json, std::vector<nlohmann::json*>* nodes) {
  if (nodes->size() >= kMaxNodes) return;
  nodes->push_back(&json);
  if (json.is_structured())
    for (nlohmann::json& child : json) collect(child, nodes);
}

nlohmann::json number(std::mt19937& random) {
  static const int64_t kInteresting[] = {0,
                                         1,
                                         -1,
                                         2,
                                         31,
                                         32,
                                         33,
                                         4095,
                                         4096,
                                         4097,
                                         65535,
                                         65536,
                                         INT32_MAX,
                                         INT64_MAX,
                                         INT64_MIN,
                                         1LL << 26,
                                         1LL << 60,
                                         (1LL << 60) + 1,
                                         999999999999LL,
                                         1000000000000LL,
                                         100000,
                                         99999};
  switch (random() % 3) {
    case 0:
      return kInteresting[random() % (sizeof kInteresting / sizeof *kInteresting)];
    case 1:
      return static_cast<uint64_t>(random()) << 32 | random();
    default:
      return static_cast<int64_t>(random() % 70000);
  }
}

void change(nlohmann::json* node, const std::vector<nlohmann::json*>& all, std::mt19937& random) {
  if (node->is_number() && random() % 8) {
    const auto value = node->is_number_integer() ? node->get<int64_t>() : 0;
    const int64_t step = static_cast<int64_t>(random() % 5) - 2;
    *node = random() % 2
                ? nlohmann::json(static_cast<int64_t>(static_cast<uint64_t>(value) + static_cast<uint64_t>(step)))
                : number(random);
    return;
  }
  if (node->is_string() && random() % 8) {
    auto text = node->get<std::string>();
    switch (random() % 4) {
      case 0:
        if (!text.empty()) text[random() % text.size()] = static_cast<char>(random() % 95 + 32);
        break;
      case 1:
        text.insert(random() % (text.size() + 1), random() % 2 ? "/" : "..");
        break;
      case 2:
        if (!text.empty()) text.erase(random() % text.size(), 1);
        break;
      default:
        text += text;
    }
    *node = text;
    return;
  }
  if (node->is_boolean() && random() % 8) {
    *node = !node->get<bool>();
    return;
  }
  if (node->is_array() && !node->empty()) {
    const size_t at = random() % node->size();
    switch (random() % 4) {
      case 0:
        node->erase(at);
        return;
      case 1: {
        nlohmann::json copy = (*node)[at];
        node->push_back(std::move(copy));
        return;
      }
      case 2:
        std::swap((*node)[at], (*node)[random() % node->size()]);
        return;
      default:
        break;
    }
  }
  if (node->is_object() && !node->empty() && random() % 2) {
    auto at = node->begin();
    std::advance(at, random() % node->size());
    node->erase(at.key());
    return;
  }
  switch (random() % 6) {
    case 0:
      *node = nullptr;
      break;
    case 1:
      *node = nlohmann::json::array();
      break;
    case 2:
      *node = nlohmann::json::object();
      break;
    case 3:
      *node = number(random);
      break;
    default: {
      nlohmann::json copy = *all[random() % all.size()];
      *node = std::move(copy);
    }
  }
}

void put_checksum(std::string* text) {
  constexpr size_t kTail = kHashHexDigits + 5;  // quote, newline, brace, newline
  if (text->size() < kTail) return;
  const size_t at = text->size() - kTail + 1;
  text->replace(at, kHashHexDigits, kHashHexDigits, '0');
  text->replace(at, kHashHexDigits, to_hex(hash_bytes(text->data(), text->size())));
}

std::string seal_manifest(nlohmann::json* json) {
  json->erase("checksum");
  if (json->contains("files") && (*json)["files"].is_array())
    for (nlohmann::json& file : (*json)["files"])
      if (auto record =
              file_from_json(Json::parse(file.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))))
        file["root"] = to_hex(table_root(record->blocks));
  std::string sealed = json->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  sealed.pop_back();
  sealed += ",\"checksum\": \"" + std::string(kHashHexDigits, '0') + "\"\n}\n";
  put_checksum(&sealed);
  return sealed;
}

}  // namespace

std::string mutate_character(std::string text, uint32_t seed) {
  std::mt19937 random(seed);
  for (int tries = 0; tries < 20 && !text.empty(); ++tries) {
    char& c = text[random() % text.size()];
    if (c >= '0' && c <= '9') {
      c = static_cast<char>('0' + random() % 10);
      break;
    }
    if ((c >= 'a' && c <= 'z') || c == ',' || c == '[' || c == ']') {
      c = "/.,[]x%-0\"\\e"[random() % 12];
      break;
    }
  }
  put_checksum(&text);
  return text;
}

std::string mutate_json(const std::string& text, uint32_t seed, size_t max_size, bool seal) {
  if (!parse_json(text)) return text;  // one that nests too deep, too
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return text;
  std::mt19937 random(seed);
  for (uint32_t i = 0; i <= random() % 4; ++i) {
    std::vector<nlohmann::json*> nodes;
    collect(json, &nodes);
    change(nodes[random() % nodes.size()], nodes, random);
    if (!json.is_object()) return text;
  }
  std::string mutated =
      seal ? seal_manifest(&json) : json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return mutated.size() <= max_size ? mutated : text;
}

}  // namespace dl::ckpt::fuzz
