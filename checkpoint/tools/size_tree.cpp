// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/size_tree.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "common/base/parse.h"

namespace dl::ckpt::tool {
namespace {

constexpr size_t kSiblings = 24;  // most lines for the parts of one group

struct Node {
  SizeGroup group;
  std::map<std::string, Node> children;
};

void add(SizeGroup* group, uint64_t bytes, const std::string& dtype) {
  group->bytes += bytes;
  if (dtype == "blob") {
    ++group->blobs;
  } else if (dtype == "member") {
    ++group->members;
  } else {
    ++group->tensors;
    group->dtypes[dtype] += bytes;
  }
}

void insert(Node* root, const std::string& path, int depth, uint64_t bytes, const std::string& dtype) {
  Node* node = root;
  add(&node->group, bytes, dtype);
  size_t begin = 0;
  for (int level = 0; level < depth && begin < path.size(); ++level) {
    const size_t cut = path.find_first_of("/.", begin + 1);
    const size_t end = cut == std::string::npos ? path.size() : cut + 1;
    node = &node->children[path.substr(begin, end - begin)];
    node->group.name = path.substr(0, end);
    node->group.level = level;
    add(&node->group, bytes, dtype);
    begin = end;
  }
}

void flatten(const Node& node, std::vector<SizeGroup>* out) {
  std::vector<const Node*> children;
  for (const auto& [name, child] : node.children) children.push_back(&child);
  std::stable_sort(children.begin(), children.end(),
                   [](const Node* a, const Node* b) { return a->group.bytes > b->group.bytes; });
  for (const Node* child : children) {
    out->push_back(child->group);
    flatten(*child, out);
  }
}

std::string plural(size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string contents(const SizeGroup& group) {
  std::string text;
  const auto append = [&](size_t count, const char* what) {
    if (count) text += (text.empty() ? "" : ", ") + plural(count, what);
  };
  append(group.tensors, "tensor");
  append(group.blobs, "blob");
  append(group.members, "file");
  std::string dtypes;
  for (const auto& [dtype, bytes] : group.dtypes) dtypes += (dtypes.empty() ? "" : " ") + dtype;
  return text + (dtypes.empty() ? "" : "  " + dtypes);
}

std::string bar(double share, size_t width, bool blocks) {
  if (!blocks) {
    const auto length = static_cast<size_t>(std::llround(share * static_cast<double>(width)));
    return std::string(length, '#') + std::string(width - length, ' ');
  }
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<size_t>(std::llround(share * static_cast<double>(width) * 8));
  std::string text;
  for (size_t i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  const size_t columns = eighths / 8 + (eighths % 8 ? 1 : 0);
  return text + std::string(width - std::min(width, columns), ' ');
}

// Keeps only the first kSiblings of each group's parts; the others are summed up in one line.
std::vector<SizeGroup> shorten(const std::vector<SizeGroup>& groups) {
  std::vector<SizeGroup> out;
  std::vector<size_t> seen(1, 0), rest(1, SIZE_MAX);  // by level: siblings so far, index of their sum in `out`
  int skipping = -1;  // the level of a group that was left out: the groups below it are left out, too
  for (const SizeGroup& group : groups) {
    const auto level = static_cast<size_t>(group.level);
    if (skipping >= 0 && group.level > skipping) continue;
    skipping = -1;
    seen.resize(level + 1, 0);
    rest.resize(level + 1, SIZE_MAX);
    if (++seen[level] <= kSiblings) {
      out.push_back(group);
      continue;
    }
    skipping = group.level;
    if (rest[level] == SIZE_MAX) {
      rest[level] = out.size();
      out.push_back(SizeGroup{"", group.level, 0, 0, 0, 0, {}});
    }
    SizeGroup& sum = out[rest[level]];
    sum.name = fmt::format("and {} more", seen[level] - kSiblings);
    sum.bytes += group.bytes;
    sum.tensors += group.tensors;
    sum.blobs += group.blobs;
    sum.members += group.members;
    for (const auto& [dtype, bytes] : group.dtypes) sum.dtypes[dtype] += bytes;
  }
  return out;
}

}  // namespace

std::vector<SizeGroup> size_tree(const Manifest& manifest, int depth) {
  Node root;
  for (const TensorRecord& tensor : manifest.tensors)
    insert(&root, tensor.path, depth, tensor.bytes(), tensor.dtype->name);
  for (const BlobRecord& blob : manifest.blobs) insert(&root, blob.path, depth, blob.size, "blob");
  for (const MemberRecord& member : manifest.members) insert(&root, member.name, depth, member.size, "member");
  std::vector<SizeGroup> groups;
  flatten(root, &groups);
  return groups;
}

std::vector<std::string> draw(const std::vector<SizeGroup>& all, size_t width, bool blocks) {
  const std::vector<SizeGroup> groups = shorten(all);
  uint64_t total = 0;
  size_t names = 5, tails = 0;
  std::vector<std::string> shown;
  for (const SizeGroup& group : groups) {
    if (group.level == 0) total += group.bytes;
    shown.push_back(std::string(2 * static_cast<size_t>(group.level), ' ') + printable(group.name, 60));
    names = std::max(names, std::min<size_t>(shown.back().size(), 48));
    tails = std::max(tails, contents(group).size());
  }
  // Two columns in front, "  SIZE(9)  SHARE(6)  " in between, two columns after the bar.
  const size_t used = 2 + names + 2 + 9 + 2 + 6 + 2 + 2 + std::min<size_t>(tails, 40);
  const size_t bar_width = std::clamp<size_t>(width > used ? width - used : 0, 10, 60);
  std::vector<std::string> lines;
  for (size_t i = 0; i < groups.size(); ++i) {
    const double share = total ? static_cast<double>(groups[i].bytes) / static_cast<double>(total) : 0;
    lines.push_back(fmt::format("  {:{}}  {:>9}  {:5.1f}%  {}  {}", shown[i], names, format_bytes(groups[i].bytes),
                                100 * share, bar(share, bar_width, blocks), contents(groups[i])));
  }
  return lines;
}

size_t terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
    return size.ws_col;
  return 100;
}

bool terminal_has_unicode() {
  if (::isatty(STDOUT_FILENO) != 1) return false;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    const std::string text = value;
    return text.find("UTF-8") != std::string::npos || text.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace dl::ckpt::tool
