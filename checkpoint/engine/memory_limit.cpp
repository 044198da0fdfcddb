// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/engine/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace dl::ckpt {
namespace {

// cgroup v1 writes a number near 2^63 if there is no limit.
constexpr uint64_t kUnlimited = uint64_t{1} << 62;

std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;  // also for "max"
  return value;
}

// Reads the row "KEY NUMBER" of memory.stat.
uint64_t read_row(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  uint64_t value = 0;
  while (file >> word >> value)
    if (word == key) return value;
  return 0;
}

// Finds the cgroup with the least memory left, among this one and those above it. Below `base` the process's own path
// may be missing, in a container whose cgroup namespace shows only its own part.
void look_upward(const std::string& base, std::string path, const char* limit_name, const char* used_name,
                 const char* cache_row, std::optional<MemoryRoom>* room) {
  for (;;) {
    const std::string at = base + path;
    const auto limit = read_number(at + "/" + limit_name);
    if (limit && *limit < kUnlimited) {
      MemoryRoom here;
      here.limit = *limit;
      here.used = read_number(at + "/" + used_name).value_or(0);
      here.used -= std::min(here.used, read_row(at + "/memory.stat", cache_row));
      if (!*room || here.left() < (*room)->left()) *room = here;
    }
    if (path.empty() || path == "/") return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

bool has_word(const std::string& list, const std::string& word) {
  std::istringstream words(list);
  std::string item;
  while (std::getline(words, item, ','))
    if (item == word) return true;
  return false;
}

}  // namespace

std::optional<MemoryRoom> memory_room(const std::string& self, const std::string& root) {
  std::optional<MemoryRoom> room;
  std::ifstream file(self);
  std::string line;
  while (std::getline(file, line)) {  // "0::/a/b" (v2) or "4:memory:/a/b" (v1)
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      look_upward(root, path, "memory.max", "memory.current", "inactive_file", &room);
    } else if (has_word(controllers, "memory")) {
      look_upward(root + "/memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                  &room);
    }
  }
  return room;
}

}  // namespace dl::ckpt
