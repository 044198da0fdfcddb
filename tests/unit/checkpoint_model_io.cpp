// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/checkpoint_model_io.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dl::ckpt::test {

int ModelState::find(const std::string& path) const {
  int at = 0;
  size_t begin = 0;
  while (begin < path.size()) {
    size_t end = path.find('/', begin);
    if (end == std::string::npos) end = path.size();
    if (end > begin) {
      const Node& node = nodes[static_cast<size_t>(at)];
      if (!node.directory) return -ENOTDIR;
      const auto found = node.entries.find(path.substr(begin, end - begin));
      if (found == node.entries.end()) return -ENOENT;
      at = found->second;
    }
    begin = end + 1;
  }
  return at;
}

std::string describe(const ModelOp& op) {
  const std::string node = "#" + std::to_string(op.node);
  switch (op.kind) {
    case ModelOp::kMake:
      return "make " + op.name + " (#" + std::to_string(op.other) + ") in " + node;
    case ModelOp::kRemove:
      return "remove " + op.name + " from " + node;
    case ModelOp::kRename:
      return "rename " + op.name + " in " + node + " to " + op.to + " in #" + std::to_string(op.other);
    case ModelOp::kWrite:
      return "write " + std::to_string(op.bytes.size()) + " bytes at " + std::to_string(op.at) + " of " + node;
    case ModelOp::kGrow:
      return "reserve " + std::to_string(op.at) + " bytes of " + node;
    case ModelOp::kCut:
      return "cut to " + std::to_string(op.at) + " bytes " + node;
    case ModelOp::kSyncFile:
      return "fsync " + node;
    case ModelOp::kSyncDirectory:
      return "fsync directory " + node;
    case ModelOp::kMark:
      return op.name;
  }
  return "";
}

void apply(const ModelOp& op, ModelState* state, uint64_t from, uint64_t to) {
  const auto index = static_cast<size_t>(op.node);
  const size_t needed = static_cast<size_t>(std::max({op.node, op.other, op.other_node, 0})) + 1;
  if (state->nodes.size() < needed) state->nodes.resize(needed);
  // The file's content at that length, belonging to this state alone.
  const auto resized = [&](uint64_t size) -> std::string& {
    std::shared_ptr<std::string>& data = state->nodes[index].data;
    if (data.use_count() > 1) data = std::make_shared<std::string>(*data);
    data->resize(size, '\0');
    return *data;
  };
  switch (op.kind) {
    case ModelOp::kMake:
      if (op.directory) state->nodes[static_cast<size_t>(op.other)].directory = true;
      if (state->nodes[static_cast<size_t>(op.other)].modified_ms == 0)
        state->nodes[static_cast<size_t>(op.other)].modified_ms = state->now_ms;
      state->nodes[index].entries[op.name] = op.other;
      break;
    case ModelOp::kRemove:
      state->nodes[index].entries.erase(op.name);
      break;
    case ModelOp::kRename:
      state->nodes[index].entries.erase(op.name);
      state->nodes[static_cast<size_t>(op.other)].entries[op.to] = op.other_node;
      break;
    case ModelOp::kWrite: {
      to = std::min<uint64_t>(to, op.bytes.size());
      if (from >= to) break;
      std::string& data = resized(std::max<uint64_t>(state->nodes[index].data->size(), op.at + to));
      data.replace(op.at + from, to - from, op.bytes, from, to - from);
      break;
    }
    case ModelOp::kGrow:
      if (op.at > state->nodes[index].data->size()) resized(op.at);
      break;
    case ModelOp::kCut:
      resized(op.at);
      break;
    default:
      return;
  }
  state->nodes[index].modified_ms = state->now_ms;
}

void ModelIo::mark(const std::string& words) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ModelOp op;
  op.name = words;
  commit(std::move(op));
}

void ModelIo::advance_ms(int64_t ms) {
  const std::lock_guard<std::mutex> lock(mutex_);
  state_.now_ms += ms;
}

ModelState ModelIo::state() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return state_;
}

std::vector<ModelOp> ModelIo::ops() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ops_;
}

int ModelIo::parent(const std::string& path, std::string* name) const {
  const size_t slash = path.rfind('/');
  *name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  const int directory = slash == std::string::npos ? 0 : state_.find(path.substr(0, slash));
  if (directory >= 0 && !state_.nodes[static_cast<size_t>(directory)].directory) return -ENOTDIR;
  return directory;
}

int ModelIo::child(int directory, const std::string& name) const {
  const auto& entries = state_.nodes[static_cast<size_t>(directory)].entries;
  const auto found = entries.find(name);
  return found == entries.end() ? -ENOENT : found->second;
}

int ModelIo::node_of(int fd) const {
  if (fd < 0 || static_cast<size_t>(fd) >= descriptors_.size()) return -1;
  return descriptors_[static_cast<size_t>(fd)];
}

void ModelIo::commit(ModelOp op) {
  apply(op, &state_);
  if (record_) ops_.push_back(std::move(op));
}

int ModelIo::open(const std::string& path, int flags) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string name;
  const int directory = parent(path, &name);
  if (directory < 0) return directory;
  int node = child(directory, name);
  if (node < 0) {
    if (!(flags & O_CREAT)) return node;
    ModelOp op;
    op.kind = ModelOp::kMake;
    op.node = directory;
    op.name = name;
    op.other = node = static_cast<int>(state_.nodes.size());
    commit(std::move(op));
  } else {
    if ((flags & O_CREAT) && (flags & O_EXCL)) return -EEXIST;
    const bool writes = (flags & O_ACCMODE) != O_RDONLY;
    if (state_.nodes[static_cast<size_t>(node)].directory && writes) return -EISDIR;
    if ((flags & O_TRUNC) && writes) {
      ModelOp op;
      op.kind = ModelOp::kCut;
      op.node = node;
      commit(std::move(op));
    }
  }
  for (size_t fd = 0; fd < descriptors_.size(); ++fd) {
    if (descriptors_[fd] >= 0) continue;
    descriptors_[fd] = node;
    return static_cast<int>(fd);
  }
  descriptors_.push_back(node);
  return static_cast<int>(descriptors_.size()) - 1;
}

int ModelIo::close(int fd) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (node_of(fd) < 0) return -EBADF;
  descriptors_[static_cast<size_t>(fd)] = -1;
  return 0;
}

int64_t ModelIo::pread(int fd, void* buffer, size_t size, uint64_t at) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int node = node_of(fd);
  if (node < 0) return -EBADF;
  if (state_.nodes[static_cast<size_t>(node)].directory) return -EISDIR;
  const std::string& data = *state_.nodes[static_cast<size_t>(node)].data;
  if (at >= data.size()) return 0;
  const size_t n = std::min<size_t>(size, data.size() - at);
  std::memcpy(buffer, data.data() + at, n);
  return static_cast<int64_t>(n);
}

int64_t ModelIo::pwrite(int fd, const void* buffer, size_t size, uint64_t at) {
  const int rc = on_file(fd, ModelOp::kWrite, at, std::string(static_cast<const char*>(buffer), size));
  return rc < 0 ? rc : static_cast<int64_t>(size);
}

int ModelIo::on_file(int fd, ModelOp::Kind kind, uint64_t at, std::string bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (node_of(fd) < 0) return -EBADF;
  ModelOp op;
  op.kind = kind;
  op.node = node_of(fd);
  op.at = at;
  op.bytes = std::move(bytes);
  commit(std::move(op));
  return 0;
}

int ModelIo::fsync(int fd) {
  return on_file(fd, ModelOp::kSyncFile);
}

int ModelIo::fallocate(int fd, uint64_t size) {
  return on_file(fd, ModelOp::kGrow, size);
}

int ModelIo::ftruncate(int fd, uint64_t size) {
  return on_file(fd, ModelOp::kCut, size);
}

int ModelIo::stat(const std::string& path, Info* info) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int node = state_.find(path);
  if (node < 0) return node;
  const ModelState::Node& found = state_.nodes[static_cast<size_t>(node)];
  info->directory = found.directory;
  info->regular = !found.directory;
  info->size = found.directory ? 0 : found.data->size();
  info->modified_ms = found.modified_ms;
  info->links = 0;
  for (const ModelState::Node& directory : state_.nodes)
    for (const auto& entry : directory.entries) info->links += entry.second == node ? 1 : 0;
  return 0;
}

int ModelIo::mkdir(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ModelOp op;
  const int directory = parent(path, &op.name);
  if (directory < 0) return directory;
  if (child(directory, op.name) >= 0) return -EEXIST;
  op.kind = ModelOp::kMake;
  op.node = directory;
  op.other = static_cast<int>(state_.nodes.size());
  op.directory = true;
  commit(std::move(op));
  return 0;
}

int ModelIo::remove(const std::string& path, bool directory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ModelOp op;
  op.node = parent(path, &op.name);
  if (op.node < 0) return op.node;
  const int node = child(op.node, op.name);
  if (node < 0) return node;
  const ModelState::Node& found = state_.nodes[static_cast<size_t>(node)];
  if (found.directory != directory) return directory ? -ENOTDIR : -EISDIR;
  if (!found.entries.empty()) return -ENOTEMPTY;
  op.kind = ModelOp::kRemove;
  commit(std::move(op));
  return 0;
}

int ModelIo::rmdir(const std::string& path) {
  return remove(path, true);
}

int ModelIo::unlink(const std::string& path) {
  return remove(path, false);
}

int ModelIo::rename(const std::string& from, const std::string& to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ModelOp op;
  const int source = parent(from, &op.name);
  if (source < 0) return source;
  const int target = parent(to, &op.to);
  if (target < 0) return target;
  const int node = child(source, op.name);
  if (node < 0) return node;
  const int replaced = child(target, op.to);
  if (replaced == node) return 0;
  if (replaced >= 0) {
    const ModelState::Node& old = state_.nodes[static_cast<size_t>(replaced)];
    const bool directory = state_.nodes[static_cast<size_t>(node)].directory;
    if (old.directory && !directory) return -EISDIR;
    if (!old.directory && directory) return -ENOTDIR;
    if (old.directory && !old.entries.empty()) return -ENOTEMPTY;
  }
  op.kind = ModelOp::kRename;
  op.node = source;
  op.other = target;
  op.other_node = node;
  commit(std::move(op));
  return 0;
}

int ModelIo::link(const std::string& from, const std::string& to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int node = state_.find(from);
  if (node < 0) return node;
  if (state_.nodes[static_cast<size_t>(node)].directory) return -EPERM;
  ModelOp op;
  op.kind = ModelOp::kMake;
  op.node = parent(to, &op.name);
  if (op.node < 0) return op.node;
  if (child(op.node, op.name) >= 0) return -EEXIST;
  op.other = node;
  commit(std::move(op));
  return 0;
}

int ModelIo::list(const std::string& path, std::vector<std::string>* names) {
  const std::lock_guard<std::mutex> lock(mutex_);
  names->clear();
  const int node = state_.find(path);
  if (node < 0) return node;
  if (!state_.nodes[static_cast<size_t>(node)].directory) return -ENOTDIR;
  for (const auto& entry : state_.nodes[static_cast<size_t>(node)].entries) names->push_back(entry.first);
  return 0;
}

int ModelIo::fsync_directory(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int node = state_.find(path);
  if (node < 0) return node;
  if (!state_.nodes[static_cast<size_t>(node)].directory) return -ENOTDIR;
  ModelOp op;
  op.kind = ModelOp::kSyncDirectory;
  op.node = node;
  commit(std::move(op));
  return 0;
}

}  // namespace dl::ckpt::test
