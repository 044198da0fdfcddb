// SPDX-License-Identifier: Apache-2.0
// Writes a single file (an export, a repaired file) that appears under its name complete and durable, or not at all.
// Reads the tensors that go into it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/store/file.h"

namespace dl::ckpt {

class OutputFile {
 public:
  // Creates a temporary file beside `path`. kExists if `path` exists already, unless `replace` is true; then what a
  // link leads to is replaced, and kInvalid is returned for a device or a pipe.
  static Result<OutputFile> create(Io& io, const std::string& path, bool replace);
  // The same for a file of a checkpoint: whatever is there is replaced, but no directory; of a link itself, not what it
  // leads to.
  static Result<OutputFile> create_over(Io& io, const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  // Removes the temporary file if it was not published.
  ~OutputFile();

  File& file() { return *file_; }
  const std::string& temporary_path() const { return temporary_; }
  // Syncs and closes the file; must be called before publish().
  Status sync();
  // Renames the file to its path and fsyncs the directory.
  Status publish();

 private:
  static Result<OutputFile> beside(Io& io, const std::string& path);
  OutputFile(Io& io, std::string path, std::string temporary, File file);
  Io* io_;
  std::string path_, temporary_;
  std::optional<File> file_;
  bool published_ = false;
};

// "dir/name" -> "dir"; "name" -> "."
std::string parent_directory(const std::string& path);

// A tensor of a checkpoint, and the place for its bytes (in global C order).
struct Piece {
  const TensorRecord* tensor = nullptr;
  uint64_t at = 0;
  const std::string* known = nullptr;  // its bytes, if they are not read from the checkpoint's files
};
// Receives bytes and their offset. If copy_pieces() has several threads, they call it at the same time; if it has one,
// the offsets rise.
using Sink = std::function<Status(const void* bytes, size_t size, uint64_t at)>;
// Called with the number of bytes done and in total, by one thread at a time.
using Meter = std::function<void(uint64_t done, uint64_t total)>;

// Reads and verifies the pieces and passes them to the sink.
Status copy_pieces(Io& io, const std::string& checkpoint, const Manifest& manifest, const std::vector<Piece>& pieces,
                   size_t threads, const Sink& sink, const Meter& meter);

}  // namespace dl::ckpt
