// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/engine/unchanged.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <unordered_map>

#include "checkpoint/engine/copy.h"
#include "checkpoint/levels/verified_copy.h"
#include "checkpoint/store/verify.h"

namespace dl::ckpt {
namespace {

// Fewer bytes are not worth another file.
constexpr uint64_t kWorthAFile = uint64_t{256} << 10;
constexpr int kMostNeeded = 1024;

// A block of an item that has to be compared.
struct Comparison {
  size_t item;
  uint64_t begin;  // offset within the item
  const Block* block;
};

// Adds the blocks of an item. False, and nothing is added, if the item shares a block there.
bool add_comparisons(const KeptFile& kept, size_t index, size_t item, uint64_t bytes, std::vector<Comparison>* all) {
  const std::vector<Block>& blocks = kept.record.blocks;
  const uint64_t begin = kept.at[index], end = begin + bytes;
  size_t block = find_block(blocks, begin);
  if (block == blocks.size() || blocks[block].at != begin) return false;
  const size_t before = all->size();
  uint64_t at = begin;
  for (; block < blocks.size() && at < end && blocks[block].at == at; ++block) {
    all->push_back({item, at - begin, &blocks[block]});
    at = blocks[block].end();
  }
  if (at == end) return true;
  all->resize(before);
  return false;
}

// Whether the memory still has the stored content.
bool same_content(const WriteItem& item, const Comparison& one, std::vector<unsigned char>* scratch,
                  DeviceCopies* copies) {
  if (item.strides.empty() && item.place.on_host())
    return hash_bytes(static_cast<const unsigned char*>(item.data) + one.begin, one.block->length) == one.block->hash;
  if (scratch->size() < one.block->length) scratch->resize(one.block->length);
  const Status copied = copy_item(item, one.begin, one.block->length, scratch->data(), copies);
  const Status waited = copies->wait();
  return copied && waited && hash_bytes(scratch->data(), one.block->length) == one.block->hash;
}

}  // namespace

void KeptFile::drop_others(std::vector<size_t>* used) {
  std::vector<LayoutItem> left;
  std::vector<uint64_t> left_at;
  for (size_t& index : *used) {
    if (index == kNotKept) continue;
    left.push_back(std::move(items[index]));
    left_at.push_back(at[index]);
    index = left.size() - 1;
  }
  items.swap(left);
  at.swap(left_at);
}

KeptFile find_kept_file(const Manifest& manifest, uint32_t writer) {
  KeptFile kept;
  for (size_t f = 0; f < manifest.files.size(); ++f) {
    const FileRecord& file = manifest.files[f];
    if (file.writer != writer || file.part != kKeptPart) continue;
    kept.record = file;
    if (!kept.record.origin) kept.record.origin = manifest.name;
    for (const TensorRecord& tensor : manifest.tensors)
      for (const ShardRecord& shard : tensor.shards) {
        if (shard.file != f) continue;
        kept.items.push_back(
            LayoutItem{shard.h5_path, tensor.path, tensor.dtype, tensor.shape, shard.box, tensor.replicated, false});
        kept.at.push_back(shard.at);
        kept.stored_bytes += volume(shard.box.extent).value_or(0) * tensor.dtype->size;
      }
    break;
  }
  return kept;
}

void ChangeHistory::saved(const std::string& h5_path, const Hash128& content) {
  Entry& entry = entries_[h5_path];
  steady_ -= entry.same >= entry.needed ? 1 : 0;
  entry.same = entry.content == content ? entry.same + 1 : 0;
  entry.content = content;
  steady_ += entry.same >= entry.needed ? 1 : 0;
}

void ChangeHistory::surprised(const std::string& h5_path) {
  Entry& entry = entries_[h5_path];
  steady_ -= entry.same >= entry.needed ? 1 : 0;
  entry.same = 0;
  entry.needed = std::min(entry.needed * 2, kMostNeeded);
  entry.surprised = true;
}

bool ChangeHistory::settled(const WriteItem& item) const {
  if (item.dataset->blob || (steady_ == 0 && !item.frozen) || item.bytes() < kOwnBlocksFrom) return false;
  const auto found = entries_.find(item.dataset->h5_path);
  if (found == entries_.end()) return item.frozen;
  return (item.frozen && !found->second.surprised) || found->second.same >= found->second.needed;
}

std::vector<size_t> find_unchanged(const KeptFile& kept, const std::vector<WriteItem>& items, CopyPool& pool) {
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < kept.items.size(); ++i) places.emplace(kept.items[i].h5_path, i);
  std::vector<size_t> found(items.size(), kNotKept);
  std::vector<Comparison> comparisons;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto place = places.find(items[i].dataset->h5_path);
    if (place == places.end() || !same_dataset(kept.items[place->second], *items[i].dataset)) continue;
    if (add_comparisons(kept, place->second, i, items[i].bytes(), &comparisons)) found[i] = place->second;
  }
  const auto changed = std::make_unique<std::atomic<bool>[]>(items.size());
  // Work that is queued on a device may still change these tensors, so it is waited for. If that fails, they count as
  // changed, and the save will report the error.
  std::vector<WriteItem> compared;
  for (size_t i = 0; i < items.size(); ++i)
    if (found[i] != kNotKept && !items[i].place.on_host()) compared.push_back(items[i]);
  if (!await_devices(compared))
    for (size_t i = 0; i < items.size(); ++i) changed[i] = found[i] != kNotKept && !items[i].place.on_host();
  std::atomic<size_t> next{0};
  pool.run([&] {
    std::vector<unsigned char> scratch;
    DeviceCopies copies;
    for (size_t mine = next++; mine < comparisons.size(); mine = next++) {
      const Comparison& one = comparisons[mine];
      if (changed[one.item].load(std::memory_order_relaxed)) continue;
      bool same = false;
      try {
        same = same_content(items[one.item], one, &scratch, &copies);
      } catch (const std::bad_alloc&) {  // then it counts as changed and is saved
      }
      if (!same) changed[one.item].store(true, std::memory_order_relaxed);
    }
  });
  for (size_t i = 0; i < items.size(); ++i)
    if (changed[i]) found[i] = kChanged;
  return found;
}

std::vector<Home> choose_homes(const std::vector<WriteItem>& items, const std::vector<size_t>& unchanged,
                               uint64_t kept_bytes, const ChangeHistory& history, uint64_t* waited) {
  std::vector<Home> homes(items.size(), Home::kMain);
  uint64_t alive = 0, waiting = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (unchanged[i] != kNotKept) {
      homes[i] = Home::kKept;
      alive += items[i].bytes();
    } else if (history.settled(items[i])) {
      homes[i] = Home::kNew;
      waiting += items[i].bytes();
    }
  }
  const bool of_use = alive > 0 && alive >= kept_bytes / 2;
  if (of_use && (waiting == 0 || *waited < alive)) {
    *waited += waiting;
    std::replace(homes.begin(), homes.end(), Home::kNew, Home::kMain);
    return homes;
  }
  *waited = 0;
  const Home instead = alive + waiting >= kWorthAFile ? Home::kNew : Home::kMain;
  for (Home& home : homes)
    if (home != Home::kMain) home = instead;
  return homes;
}

Status put_kept_file(Io& io, const KeptFile& kept, const std::string& to) {
  if (io.link(kept.path, to) == 0) {
    // The path may lead to another file by now.
    if (check_head(io, to, *kept.record.origin, kept.record)) return {};
    io.unlink(to);
  }
  const StoredFile stored{kept.record.name(), kept.record.size, &kept.record.blocks, 0, kept.record.writer};
  DL_TRY(copy_verified(io, kept.file.get(), to, stored));
  auto checked = check_head(io, to, *kept.record.origin, kept.record);
  if (!checked) io.unlink(to);
  return checked;
}

}  // namespace dl::ckpt
