// SPDX-License-Identifier: Apache-2.0
// Writes a single file (an export, a repaired file) that appears under its name complete and durable, or not at all;
// and reads the tensors that go into it.
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
  // Makes a temporary file beside `path`. kExists if there is a file already, unless `replace`.
  static Result<OutputFile> create(Io& io, const std::string& path, bool replace);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  // Removes the temporary file unless it was published.
  ~OutputFile();

  File& file() { return *file_; }
  const std::string& temporary_path() const { return temporary_; }
  // fsync and close; then publish() may be called.
  Status sync();
  // Renames it into its place and fsyncs the directory.
  Status publish();

 private:
  OutputFile(Io& io, std::string path, std::string temporary, File file);
  Io* io_;
  std::string path_, temporary_;
  std::optional<File> file_;
  bool published_ = false;
};

// "dir/name" -> "dir"; "name" -> "."
std::string parent_directory(const std::string& path);

// A tensor of a checkpoint, and where its bytes (global C order) go.
struct Piece {
  const TensorRecord* tensor = nullptr;
  uint64_t at = 0;
};
// Takes bytes for an offset. Called by several threads at once if there are several workers; with one worker by rising
// offset.
using Sink = std::function<Status(const void* bytes, size_t size, uint64_t at)>;
// Called with the bytes done and the bytes in all, by one thread at a time.
using Meter = std::function<void(uint64_t done, uint64_t total)>;

// Reads and verifies the pieces and hands them to the sink.
Status copy_pieces(Io& io, const std::string& checkpoint, const Manifest& manifest, const std::vector<Piece>& pieces,
                   size_t workers, const Sink& sink, const Meter& meter);

}  // namespace dl::ckpt
