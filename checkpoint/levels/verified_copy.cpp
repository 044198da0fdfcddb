// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/levels/verified_copy.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "checkpoint/store/directory.h"
#include "checkpoint/store/verify.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kAlignment = 4096;  // of O_DIRECT
constexpr uint64_t kWriteBytes = uint64_t{8} << 20;
constexpr size_t kEarlierLookedAt = 8;
constexpr uint64_t kPlainBytes = uint64_t{4} << 20;

// A piece of the file in order: a block, or what lies between blocks (user block and table), which have no row in the
// table and are checked by verify_head() afterwards.
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

// A file that is written from its beginning to its end, in large aligned pieces.
class Appender {
 public:
  static Result<Appender> open(Io& io, const std::string& path, uint64_t size, uint64_t largest_piece) {
    bool direct = true;
    const auto open_file = [&]() {
      auto file = File::open(io, path, O_WRONLY | O_CREAT | O_EXCL | O_DIRECT);
      direct = file || file.error().sys_errno != EINVAL;
      // Where the file system knows no O_DIRECT; some have made the file all the same.
      return direct ? std::move(file) : File::open(io, path, O_WRONLY | O_CREAT);
    };
    auto file = open_file();
    if (!file) return std::move(file).error();
    DL_TRY(file->reserve(size));
    const uint64_t room = (kWriteBytes + largest_piece + 2 * kAlignment - 1) / kAlignment * kAlignment;
    void* memory = nullptr;
    if (::posix_memalign(&memory, kAlignment, room) != 0)
      return Error{Errc::kInternal, "out of memory for copying " + path, ENOMEM};
    return Appender(io, *std::move(file), direct, static_cast<unsigned char*>(memory));
  }

  // Where the next piece, at most as large as the largest, is to be put; then take() it.
  unsigned char* room() { return buffer_.get() + filled_; }
  Status take(uint64_t size) {
    filled_ += size;
    if (filled_ < kWriteBytes) return {};
    const uint64_t whole = filled_ / kAlignment * kAlignment;
    DL_TRY(write(whole));
    std::memmove(buffer_.get(), buffer_.get() + whole, filled_ - whole);
    filled_ -= whole;
    return {};
  }

  Status finish() {
    const uint64_t whole = filled_ / kAlignment * kAlignment;
    DL_TRY(write(whole));
    if (filled_ > whole) {
      // The tail is no whole page: through the page cache, then.
      auto tail = File::open(io_, file_.path(), O_WRONLY);
      if (!tail) return std::move(tail).error();
      DL_TRY(tail->write_all(buffer_.get() + whole, filled_ - whole, at_));
      DL_TRY(tail->close());
    }
    return file_.sync_and_close();
  }

 private:
  struct Freer {
    void operator()(unsigned char* memory) const { ::free(memory); }
  };
  Appender(Io& io, File file, bool direct, unsigned char* buffer)
      : io_(io), file_(std::move(file)), direct_(direct), buffer_(buffer) {}

  Status write(uint64_t size) {
    auto written = file_.write_all(buffer_.get(), size, at_);
    if (!written && direct_ && written.error().sys_errno == EINVAL) {
      // Some file systems take the flag and then refuse the writes. What was written stays; fsync is the file's.
      auto plain = File::open(io_, file_.path(), O_WRONLY);
      if (!plain) return std::move(plain).error();
      written = plain->write_all(buffer_.get(), size, at_);
      if (written) written = plain->close();
    }
    at_ += size;
    return written;
  }

  Io& io_;
  File file_;
  bool direct_;
  std::unique_ptr<unsigned char, Freer> buffer_;
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
  auto target = Appender::open(io, to, file.size, largest);
  Status copied = target ? copy_pieces(source, file, &*target) : Status(target.error());
  // What was there before is not ours to remove.
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
