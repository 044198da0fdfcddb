// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/shard_writer.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/client/strided.h"
#include "checkpoint/format/user_block.h"
#include "checkpoint/store/file.h"

namespace dl::ckpt {
namespace {

// Where an item's bytes lie in the file.
struct Placed {
  uint64_t at;
  uint64_t bytes;
  const WriteItem* item;
  uint64_t end() const { return at + bytes; }
  bool dense() const { return item->strides.empty(); }
  const unsigned char* data() const { return static_cast<const unsigned char*>(item->data); }
  // Bytes [from, to) of the item's box in C order.
  void copy(uint64_t from, uint64_t to, unsigned char* out) const {
    if (dense()) {
      std::memcpy(out, data() + from, to - from);
    } else {
      const Box& box = item->item.box;
      StridedMap(box, box, box, item->strides, item->item.dtype->size).gather(from, to, data(), out);
    }
  }
};

std::vector<Placed> place(const Layout& layout, const std::vector<WriteItem>& items) {
  std::vector<Placed> placed;
  for (size_t i = 0; i < items.size(); ++i) {
    const uint64_t bytes = volume(items[i].item.box.extent).value_or(0) * items[i].item.dtype->size;
    if (bytes > 0) placed.push_back(Placed{layout.at[i], bytes, &items[i]});
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) { return a.at < b.at; });
  return placed;
}

// Blocks by rising offset; each is either a part of one large dataset, taken from the caller's memory as it is, or a
// mixture of metadata and small datasets, put together in a buffer.
class BlockSource {
 public:
  BlockSource(const Layout& layout, std::vector<Placed> placed) : layout_(layout), placed_(std::move(placed)) {}

  const unsigned char* bytes(const Block& block) {
    while (next_ < placed_.size() && placed_[next_].end() <= block.at) ++next_;
    if (next_ < placed_.size() && placed_[next_].dense() && placed_[next_].at <= block.at &&
        block.end() <= placed_[next_].end())
      return placed_[next_].data() + (block.at - placed_[next_].at);
    buffer_.resize(block.length);
    layout_.read_image(block.at, buffer_.data(), block.length);
    for (size_t i = next_; i < placed_.size() && placed_[i].at < block.end(); ++i) {
      const uint64_t begin = std::max(placed_[i].at, block.at);
      const uint64_t end = std::min(placed_[i].end(), block.end());
      placed_[i].copy(begin - placed_[i].at, end - placed_[i].at, buffer_.data() + (begin - block.at));
    }
    return buffer_.data();
  }

 private:
  const Layout& layout_;
  std::vector<Placed> placed_;
  size_t next_ = 0;
  std::vector<unsigned char> buffer_;
};

Status write_contents(File* file, Layout* layout, const std::vector<WriteItem>& items, const FileIdentity& identity,
                      FileRecord* record) {
  DL_TRY(file->reserve(layout->file_size));
  BlockSource source(*layout, place(*layout, items));
  for (Block& block : layout->blocks) {
    const unsigned char* bytes = source.bytes(block);
    block.hash = hash_bytes(bytes, block.length);
    DL_TRY(file->write_all(bytes, block.length, block.at));
  }
  std::string table = encode_table(layout->blocks);
  record->writer = identity.writer;
  record->size = layout->file_size;
  record->root = hash_bytes(table.data(), table.size());
  record->table = layout->table;
  record->blocks = std::move(layout->blocks);
  table.resize(layout->table.length, '\0');
  DL_TRY(file->write_all(table.data(), table.size(), layout->table.at));

  UserBlock head;
  head.save_id = identity.name.save_id;
  head.step = identity.name.step;
  head.writer = identity.writer;
  head.world_size = identity.world_size;
  head.file_size = record->size;
  head.table_at = record->table.at;
  head.block_count = record->blocks.size();
  head.root = record->root;
  head.complete = true;
  const auto bytes = encode_user_block(head);
  DL_TRY(file->write_all(bytes.data(), bytes.size(), 0));
  return file->sync_and_close();
}

}  // namespace

Result<WrittenFile> write_data_file(Io& io, const std::string& directory, const FileIdentity& identity,
                                    const std::vector<WriteItem>& items) {
  std::vector<LayoutItem> plan;
  plan.reserve(items.size());
  for (const WriteItem& item : items) plan.push_back(item.item);
  DL_TRY_ASSIGN(Layout layout, lay_out(plan));

  WrittenFile written;
  written.at = layout.at;
  const std::string path = directory + "/" + format_file_name(identity.writer);
  auto file = File::open(io, path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file) return std::move(file).error();
  auto outcome = write_contents(&*file, &layout, items, identity, &written.record);
  if (!outcome) {
    io.unlink(path);  // frees the space for the messages that tell of it
    return std::move(outcome).error();
  }
  return written;
}

}  // namespace dl::ckpt
