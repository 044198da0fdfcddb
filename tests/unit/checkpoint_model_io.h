// SPDX-License-Identifier: Apache-2.0
// A file system in memory behind store/io.h that knows what a power loss leaves. It records every operation that
// changes something; from the record, checkpoint_crash_states.h makes the states that missing fsyncs allow.
//
// What is durable, by POSIX alone (no file system at hand is as forgetful as this one): the content of a file after
// fsync of that file, the entries of a directory after fsync of that directory, and nothing else. A rename is one
// operation: it is never half done.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/store/io.h"

namespace dl::ckpt::test {

// Directories and files by number, which they keep when they are renamed; 0 is the root.
struct ModelState {
  struct Node {
    bool directory = false;
    std::shared_ptr<std::string> data = std::make_shared<std::string>();  // copied when written while shared
    std::map<std::string, int> entries;
    int64_t modified_ms = 0;
  };
  std::vector<Node> nodes = std::vector<Node>{Node{true, nullptr, {}, 0}};
  int64_t now_ms = 1700000000000;

  // The number of the node that `path` names, or -errno.
  int find(const std::string& path) const;
};

// One recorded operation: a change, an fsync that makes changes durable, or a mark.
struct ModelOp {
  enum Kind { kMake, kRemove, kRename, kWrite, kGrow, kCut, kSyncFile, kSyncDirectory, kMark };
  Kind kind = kMark;
  int node = -1;           // the directory changed, or the file
  int other = -1;          // kMake: what the new entry names; kRename: the target directory
  int other_node = -1;     // kRename: what is renamed
  std::string name;        // of the entry; kMark: the words
  std::string to;          // kRename: new name
  uint64_t at = 0;         // kWrite: offset; kGrow, kCut: length
  std::string bytes;       // kWrite
  bool directory = false;  // kMake: of a directory
};
// "rename .tmp-x to y" and so on, for messages.
std::string describe(const ModelOp& op);
// Carries out `op` in `state`; of a write only its bytes [from, to).
void apply(const ModelOp& op, ModelState* state, uint64_t from = 0, uint64_t to = UINT64_MAX);

class ModelIo : public Io {
 public:
  explicit ModelIo(ModelState state = ModelState(), bool record = true) : state_(std::move(state)), record_(record) {}

  // Puts a mark into the record, which says what the program had been promised by then.
  void mark(const std::string& words);
  // Time goes by on the file system's clock.
  void advance_ms(int64_t ms);
  ModelState state() const;
  std::vector<ModelOp> ops() const;

  int open(const std::string& path, int flags) override;
  int close(int fd) override;
  int64_t pread(int fd, void* buffer, size_t size, uint64_t at) override;
  int64_t pwrite(int fd, const void* buffer, size_t size, uint64_t at) override;
  int fsync(int fd) override;
  int fallocate(int fd, uint64_t size) override;
  int ftruncate(int fd, uint64_t size) override;
  int stat(const std::string& path, Info* info) override;
  int mkdir(const std::string& path) override;
  int rmdir(const std::string& path) override;
  int unlink(const std::string& path) override;
  int rename(const std::string& from, const std::string& to) override;
  int link(const std::string& from, const std::string& to) override;
  int list(const std::string& path, std::vector<std::string>* names) override;
  int fsync_directory(const std::string& path) override;

 private:
  // Directory and last part of a path; -errno if the directory is not there.
  int parent(const std::string& path, std::string* name) const;
  int child(int directory, const std::string& name) const;
  int node_of(int fd) const;
  void commit(ModelOp op);
  // A recorded change (or fsync) of an open file.
  int on_file(int fd, ModelOp::Kind kind, uint64_t at = 0, std::string bytes = std::string());
  int remove(const std::string& path, bool directory);

  mutable std::mutex mutex_;
  ModelState state_;
  bool record_;
  std::vector<ModelOp> ops_;
  std::vector<int> descriptors_;  // node, -1 when closed
};

}  // namespace dl::ckpt::test
