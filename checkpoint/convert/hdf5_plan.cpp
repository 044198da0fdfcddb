// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/convert/hdf5_plan.h"

#include <algorithm>
#include <map>

#include "checkpoint/convert/hdf5_message.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

// Data begins at multiples of this, so that it can be mapped and read with O_DIRECT.
constexpr uint64_t kAlignment = 4096;
constexpr uint64_t kSmallAlignment = 64;

struct Node {
  std::map<std::string, Node> children;
  Hdf5Dataset* dataset = nullptr;
  uint64_t header_at = 0;
};

uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

// In a path HDF5 takes "." for the group itself, so such a name is escaped.
std::string link_name(const std::string& part) {
  return part == "." ? "%2E" : part;
}

Status insert(Node* root, Hdf5Dataset* dataset) {
  Node* node = root;
  for (const std::string& part : split(dataset->path, '/')) {
    node = &node->children[link_name(part)];
    if (node->dataset) break;
  }
  if (node->dataset || !node->children.empty())
    return Error{Errc::kConflict, "HDF5 cannot hold both a tensor '" + printable(dataset->path) +
                                      "' and tensors below that name; leave some out with --select"};
  node->dataset = dataset;
  return {};
}

// The object header of a node. Its size does not depend on the places in it, so these are filled in by a second pass.
std::string header_of(const Node& node, const std::vector<Hdf5Attribute>& attributes) {
  Hdf5Header header;
  if (node.dataset) {
    header.add_dataset(*node.dataset->dtype, node.dataset->shape, node.dataset->at, node.dataset->bytes);
    if (hdf5_needs_name(*node.dataset->dtype)) header.add_text_attribute("dtype", node.dataset->dtype->name);
    return header.finish();
  }
  header.add_group();
  for (const auto& [name, child] : node.children) header.add_link(name, child.header_at);
  for (const Hdf5Attribute& attribute : attributes) header.add_text_attribute(attribute.name, attribute.value);
  return header.finish();
}

// Assigns a place to every header; the root's comes first.
void place_headers(Node* node, const std::vector<Hdf5Attribute>& attributes, uint64_t* at) {
  node->header_at = *at;
  *at = round_up(*at + header_of(*node, attributes).size(), 8);
  for (auto& [name, child] : node->children) place_headers(&child, {}, at);
}

void write_headers(const Node& node, const std::vector<Hdf5Attribute>& attributes, std::string* head) {
  const std::string bytes = header_of(node, attributes);
  head->replace(node.header_at, bytes.size(), bytes);
  for (const auto& [name, child] : node.children) write_headers(child, {}, head);
}

}  // namespace

Result<Hdf5Plan> plan_hdf5(std::vector<Hdf5Dataset>* datasets, const std::vector<Hdf5Attribute>& attributes) {
  Node root;
  for (Hdf5Dataset& dataset : *datasets) {
    dataset.bytes = volume(dataset.shape).value_or(0) * dataset.dtype->size;
    DL_TRY(insert(&root, &dataset));
  }
  uint64_t at = kHdf5SuperblockBytes;
  place_headers(&root, attributes, &at);
  const uint64_t head_bytes = at;
  for (Hdf5Dataset& dataset : *datasets) {
    if (dataset.bytes == 0) continue;
    at = round_up(at, dataset.bytes >= kAlignment ? kAlignment : kSmallAlignment);
    dataset.at = at;
    at += dataset.bytes;
  }
  Hdf5Plan plan;
  plan.size = at;
  plan.head.assign(head_bytes, '\0');
  const std::string superblock = hdf5_superblock(root.header_at, plan.size);
  plan.head.replace(0, superblock.size(), superblock);
  write_headers(root, attributes, &plan.head);
  return plan;
}

}  // namespace dl::ckpt
