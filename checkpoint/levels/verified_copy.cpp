// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/levels/verified_copy.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "checkpoint/store/direct_file.h"
#include "checkpoint/store/direct_output.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "checkpoint/store/out_of_memory.h"
#include "checkpoint/store/verify.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kWriteBytes = uint64_t{8} << 20;
constexpr size_t kEarlierLookedAt = 8;
constexpr uint64_t kPlainBytes = uint64_t{4} << 20;

// A piece of the file: a block, or the bytes between blocks (user block and table). These have no row in the table, so
// the callers check them in the copy (store/verify.h).
struct Piece {
  uint64_t at = 0, length = 0;
  const Hash128* hash = nullptr;
};

std::vector<Piece> cut_pieces(const StoredFile& file) {
  std::vector<Piece> pieces;
  uint64_t at = 0;
  const auto plain_until = [&](uint64_t end) {
    for (; at < end; at = pieces.back().at + pieces.back().length)
      pieces.push_back({at, std::min(kPlainBytes, end - at), nullptr});
  };
  for (const Block& block : *file.blocks) {
    plain_until(block.at);
    pieces.push_back({block.at, block.length, &block.hash});
    at = block.end();
  }
  plain_until(file.size);
  return pieces;
}

// Writes a file from its beginning to its end, in large aligned pieces.
class Appender {
 public:
  // Throws std::bad_alloc.
  static Result<Appender> open(Io& io, const std::string& path, uint64_t size, uint64_t largest_piece) {
    DL_TRY_ASSIGN(auto file, DirectOutput::open(io, path, O_WRONLY | O_CREAT | O_EXCL));
    DL_TRY(file->reserve(size));
    Appender appender(std::move(file));
    appender.memory_ = appender.buffer_.at_least(kWriteBytes + largest_piece + kDirectAlignment);
    return appender;
  }

  // Memory for the next piece, which is at most as large as the largest; then call take().
  unsigned char* room() { return memory_ + filled_; }
  Status take(uint64_t size) {
    filled_ += size;
    if (filled_ < kWriteBytes) return {};
    const uint64_t whole = filled_ / kDirectAlignment * kDirectAlignment;
    DL_TRY(write(whole));
    std::memmove(memory_, memory_ + whole, filled_ - whole);
    filled_ -= whole;
    return {};
  }

  Status finish() {
    const uint64_t size = at_ + filled_;
    const uint64_t padding = (kDirectAlignment - filled_ % kDirectAlignment) % kDirectAlignment;
    std::memset(memory_ + filled_, 0, padding);
    DL_TRY(write(filled_ + padding));
    if (padding > 0) DL_TRY(file_->set_size(size));
    DL_TRY(file_->sync());
    return file_->close();
  }

 private:
  explicit Appender(std::unique_ptr<DirectOutput> file) : file_(std::move(file)) {}

  Status write(uint64_t size) {
    DL_TRY(file_->write(memory_, size, at_));
    at_ += size;
    return {};
  }

  std::unique_ptr<DirectOutput> file_;
  AlignedBuffer buffer_;
  unsigned char* memory_ = nullptr;  // points into buffer_
  uint64_t filled_ = 0, at_ = 0;
};

Error damaged(const std::string& path, const Piece& piece) {
  return Error{Errc::kCorrupt, path + ": the checksum of the block at byte " + std::to_string(piece.at) + " is wrong"};
}

Status check_source(Io& io, const std::string& path, uint64_t size) {
  Io::Info info;
  const int rc = io.stat(path, &info);
  if (rc < 0) return io_error("stat", path, rc);
  if (!info.regular || info.size != size)
    return Error{Errc::kCorrupt,
                 path + ": it has " + std::to_string(info.size) + " bytes instead of " + std::to_string(size)};
  return {};
}

Status copy_pieces(File* source, const StoredFile& file, Appender* target) {
  for (const Piece& piece : cut_pieces(file)) {
    DL_TRY(source->read_all(target->room(), piece.length, piece.at));
    if (piece.hash && hash_bytes(target->room(), piece.length) != *piece.hash) return damaged(source->path(), piece);
    DL_TRY(target->take(piece.length));
  }
  return target->finish();
}

}  // namespace

std::vector<StoredFile> stored_files(const Manifest& manifest) {
  std::vector<StoredFile> files;
  for (size_t i = 0; i < manifest.files.size(); ++i)
    files.push_back(
        {manifest.files[i].name(), manifest.files[i].size, &manifest.files[i].blocks, i, manifest.files[i].writer});
  for (const MemberRecord& member : manifest.members)
    files.push_back({member.file, member.size, &member.blocks, SIZE_MAX,
                     parse_member_file_name(member.file).value_or(MemberFileName{}).writer});
  return files;
}

Status copy_verified(Io& io, const std::string& from, const std::string& to, const StoredFile& file) {
  DL_TRY(check_source(io, from, file.size));
  auto source = File::open(io, from, O_RDONLY);
  if (!source) return std::move(source).error();
  return copy_verified(io, &*source, to, file);
}

Status copy_verified(Io& io, File* source, const std::string& to, const StoredFile& file) {
  uint64_t largest = kPlainBytes;
  for (const Block& block : *file.blocks) largest = std::max(largest, block.length);
  auto target = or_out_of_memory([&] { return Appender::open(io, to, file.size, largest); });
  Status copied = target ? copy_pieces(source, file, &*target) : Status(target.error());
  // A file that existed before must not be removed.
  if (!copied && copied.error().code != Errc::kExists) io.unlink(to);
  return copied;
}

bool link_from_earlier(Io& io, const std::string& dir, const Manifest& manifest, const StoredFile& file,
                       const std::string& to) {
  if (file.data_file == SIZE_MAX || !manifest.files[file.data_file].origin) return false;
  const FileRecord& record = manifest.files[file.data_file];
  const auto names = scan_checkpoints(io, dir);
  if (!names) return false;
  const size_t looked_at = std::min(names->size(), kEarlierLookedAt);
  for (size_t i = 0; i < looked_at; ++i) {
    if (io.link(checkpoint_path(dir, (*names)[i]) + "/" + file.name, to) != 0) continue;
    if (check_head(io, to, *record.origin, record)) return true;
    io.unlink(to);
  }
  return false;
}

Status verify_stored_file(Io& io, const std::string& checkpoint, const Manifest& manifest, const StoredFile& file) {
  const std::string path = checkpoint + "/" + file.name;
  if (file.data_file != SIZE_MAX) {
    DL_TRY_ASSIGN(DataFile data, DataFile::open(io, checkpoint, manifest, file.data_file));
    for (size_t i = 0; i < file.blocks->size(); ++i) DL_TRY(data.read_block(i));
    return {};
  }
  DL_TRY(check_source(io, path, file.size));
  auto source = File::open(io, path, O_RDONLY);
  if (!source) return std::move(source).error();
  std::vector<unsigned char> buffer;
  for (const Piece& piece : cut_pieces(file)) {
    buffer.resize(std::max<size_t>(buffer.size(), piece.length));
    DL_TRY(source->read_all(buffer.data(), piece.length, piece.at));
    if (piece.hash && hash_bytes(buffer.data(), piece.length) != *piece.hash) return damaged(path, piece);
  }
  return {};
}

}  // namespace dl::ckpt
