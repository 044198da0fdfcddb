// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/convert/output_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include "checkpoint/read/parallel.h"
#include "checkpoint/read/tensor_stream.h"
#include "checkpoint/store/directory.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kChunkBytes = uint64_t{8} << 20;

// A part of a piece, which one thread reads at a time.
struct Chunk {
  size_t piece;
  uint64_t at, bytes;
};

}  // namespace

std::string parent_directory(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

OutputFile::OutputFile(Io& io, std::string path, std::string temporary, File file)
    : io_(&io), path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : io_(other.io_),
      path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      file_(std::move(other.file_)),
      published_(std::exchange(other.published_, true)) {}

OutputFile::~OutputFile() {
  if (!published_) io_->unlink(temporary_);
}

Result<OutputFile> OutputFile::create(Io& io, const std::string& given, bool replace) {
  Io::Info info;
  const int rc = io.stat(given, &info);
  // A link stays, and the file that it leads to is replaced.
  std::string path = given;
  std::error_code failure;
  if (rc == 0 && std::filesystem::is_symlink(given, failure))
    if (const auto real = std::filesystem::canonical(given, failure); !failure) path = real.string();
  if (rc == 0 && info.directory) return Error{Errc::kExists, path + ": it is a directory"};
  if (rc == 0 && !info.regular)
    return Error{Errc::kInvalid, path + ": it is a device or a pipe, which cannot be replaced; allowed: a file, or a " +
                                     "name of which there is none yet"};
  if (rc == 0 && !replace) return Error{Errc::kExists, path + ": it exists already; --force replaces it"};
  if (rc < 0 && rc != -ENOENT) return io_error("stat", path, rc);
  return beside(io, path);
}

Result<OutputFile> OutputFile::create_over(Io& io, const std::string& path) {
  Io::Info info;
  if (io.stat_link(path, &info) == 0 && info.directory) return Error{Errc::kExists, path + ": it is a directory"};
  return beside(io, path);
}

Result<OutputFile> OutputFile::beside(Io& io, const std::string& path) {
  const std::string dir = parent_directory(path);
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name.empty()) return Error{Errc::kInvalid, "'" + path + "' is not the name of a file"};
  std::string temporary = dir + "/." + name + "." + format_save_id(random_u64()) + ".tmp";
  DL_TRY_ASSIGN(File file, File::open(io, temporary, O_RDWR | O_CREAT | O_EXCL));
  return OutputFile(io, path, std::move(temporary), std::move(file));
}

Status OutputFile::sync() {
  return file_->sync_and_close();
}

Status OutputFile::publish() {
  int rc = io_->rename(temporary_, path_);
  if (rc < 0) return io_error("rename to", path_, rc);
  published_ = true;
  rc = io_->fsync_directory(parent_directory(path_));
  if (rc < 0) return io_error("make durable", path_, rc);
  return {};
}

Status copy_pieces(Io& io, const std::string& checkpoint, const Manifest& manifest, const std::vector<Piece>& pieces,
                   size_t threads, const Sink& sink, const Meter& meter) {
  std::vector<Chunk> chunks;
  uint64_t total = 0, done = 0;
  for (size_t p = 0; p < pieces.size(); ++p) {
    const uint64_t bytes = pieces[p].tensor->bytes();
    const uint64_t step = kChunkBytes / pieces[p].tensor->dtype->size * pieces[p].tensor->dtype->size;
    for (uint64_t at = 0; at < bytes; at += step) chunks.push_back(Chunk{p, at, std::min(step, bytes - at)});
    total += bytes;
  }
  threads = std::max<size_t>(1, std::min(threads, chunks.size()));
  std::vector<TensorStream> streams;
  streams.reserve(threads);
  for (size_t i = 0; i < threads; ++i) streams.emplace_back(io, checkpoint, manifest);
  std::vector<std::vector<unsigned char>> buffers(threads);
  std::mutex mutex;
  return for_each_parallel(chunks.size(), threads, [&](size_t index, size_t thread) -> Status {
    const Chunk& chunk = chunks[index];
    const Piece& piece = pieces[chunk.piece];
    std::vector<unsigned char>& buffer = buffers[thread];
    if (buffer.size() < chunk.bytes) buffer.resize(chunk.bytes);
    const void* bytes = buffer.data();
    if (piece.known) {
      bytes = piece.known->data() + chunk.at;
    } else {
      DL_TRY(streams[thread].read(*piece.tensor, chunk.at, chunk.bytes, buffer.data()));
    }
    DL_TRY(sink(bytes, chunk.bytes, piece.at + chunk.at));
    const std::lock_guard<std::mutex> lock(mutex);
    done += chunk.bytes;
    if (meter) meter(done, total);
    return {};
  });
}

}  // namespace dl::ckpt
