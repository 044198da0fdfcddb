// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/key_value.h"

#include <utility>

namespace dl::rendezvous {
namespace {

// "/SCOPE/KEY". Horovod's server splits the path at its slashes and accepts exactly two names.
bool is_path(const std::string& path, size_t limit) {
  if (path.size() > limit || path.empty() || path.front() != '/') return false;
  const size_t slash = path.find('/', 1);
  return slash != std::string::npos && slash > 1 && slash + 1 < path.size() &&
         path.find('/', slash + 1) == std::string::npos;
}

}  // namespace

HttpReply KeyValueStore::handle(const std::string& method, const std::string& path, std::string body) {
  if (!is_path(path, limits_.path)) return {400, ""};
  const auto found = values_.find(path);
  if (method == "GET") return found == values_.end() ? HttpReply{404, ""} : HttpReply{200, found->second};
  if (method != "PUT" && method != "DELETE") return {405, ""};
  const size_t freed = found == values_.end() ? 0 : path.size() + found->second.size();
  if (method == "DELETE") {
    if (found != values_.end()) values_.erase(found);
    stored_ -= freed;
    return {};
  }
  if (body.size() > limits_.value) return {413, ""};
  const size_t stored = stored_ - freed + path.size() + body.size();
  if (stored > limits_.stored) return {507, ""};
  stored_ = stored;
  values_[path] = std::move(body);
  return {};
}

}  // namespace dl::rendezvous
