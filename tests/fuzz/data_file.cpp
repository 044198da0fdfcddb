// SPDX-License-Identifier: Apache-2.0
// A whole checkpoint (tests/fuzz/base, or where DL_FUZZ_BASE says) whose data file is damaged: the input is a list of
// patches. First byte: 1 puts the user block's checksum right again, 2 the block table and the manifest too. libhdf5 is
// not linked into this target: nothing that reads a data file needs it.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "checkpoint/format/user_block.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/verify.h"
#include "tests/fuzz/target.h"
#include "tests/unit/checkpoint_model_io.h"

namespace dl::ckpt::fuzz {
namespace {

using test::ModelIo;
using test::ModelState;

struct Base {
  ModelState disk;  // /c/<checkpoint>/…
  CheckpointName name;
  std::string checkpoint;
  Manifest manifest;
  std::vector<int> nodes;  // of the data files
};

int add_node(ModelState* disk, int directory, const std::string& name, bool is_directory, const std::string& bytes) {
  const int node = static_cast<int>(disk->nodes.size());
  disk->nodes.emplace_back();
  disk->nodes.back().directory = is_directory;
  disk->nodes.back().data = std::make_shared<std::string>(bytes);
  disk->nodes[static_cast<size_t>(directory)].entries[name] = node;
  return node;
}

Base load() {
  Base base;
  const char* from = std::getenv("DL_FUZZ_BASE");
  const int top = add_node(&base.disk, 0, "c", true, "");
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(from ? from : "tests/fuzz/base", ignored)) {
    const std::string name = entry.path().filename().string();
    const auto parsed = parse_checkpoint_name(name);
    if (!parsed) continue;
    base.name = *parsed;
    base.checkpoint = "/c/" + name;
    const int folder = add_node(&base.disk, top, name, true, "");
    for (const auto& file : std::filesystem::directory_iterator(entry.path())) {
      std::ifstream in(file.path(), std::ios::binary);
      add_node(&base.disk, folder, file.path().filename().string(), false,
               std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()));
    }
  }
  ModelIo io(base.disk, /*record=*/false);
  auto manifest = verify_checkpoint(io, "/c", base.name);
  must(static_cast<bool>(manifest), "the undamaged checkpoint verifies (is DL_FUZZ_BASE right?)");
  base.manifest = *std::move(manifest);
  for (const FileRecord& file : base.manifest.files)
    base.nodes.push_back(base.disk.find(base.checkpoint + "/" + file.name()));
  return base;
}

// Offset in two bytes, what to do in one, then its bytes.
void patch(Bytes* input, std::string* bytes) {
  while (!input->empty() && !bytes->empty() && bytes->size() < 20000) {
    const size_t at = input->number(2) % bytes->size();
    const uint8_t what = input->u8();
    if (what < 128) {
      for (int i = 0; i <= what % 16; ++i)
        (*bytes)[std::min(bytes->size() - 1, at + i)] = static_cast<char>(input->u8());
    } else if (what < 160) {
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << (what % 8)));
    } else if (what < 176) {
      const size_t from = input->number(2) % bytes->size();
      const size_t count = std::min<size_t>({size_t{1} << (what % 13), bytes->size() - at, bytes->size() - from});
      std::memmove(bytes->data() + at, bytes->data() + from, count);
    } else if (what < 184) {
      bytes->resize(at);
    } else if (what < 192) {
      bytes->append(input->number(2) % 600, static_cast<char>(what));
    } else if (what < 224) {
      bytes->erase(at, what % 32);
    } else {
      bytes->insert(at, what % 32, '\0');
    }
  }
}

// Fields of the user block that fit the file as it is now, and its checksum.
void repair_user_block(const FileRecord* record, std::string* bytes) {
  if (bytes->size() < kUserBlockBytes) return;
  auto* p = reinterpret_cast<unsigned char*>(bytes->data());
  if (record) {
    put_u64(p + 40, record->size);
    put_u64(p + 48, record->table.at);
    put_u64(p + 56, record->blocks.size());
    put_hash(record->root, p + 64);
  }
  put_hash(hash_bytes(p, kUserBlockBytes - kHashBytes), p + kUserBlockBytes - kHashBytes);
}

// The manifest's record with sizes and checksums of the damaged file, and its table written into the file.
bool repair_table(FileRecord* record, std::string* bytes) {
  if (bytes->size() < record->table.end() || record->blocks.empty()) return false;
  record->size = bytes->size();
  Block& last = record->blocks.back();
  if (bytes->size() <= last.at || record->table.at > last.at) return false;
  last.length = bytes->size() - last.at;
  for (Block& block : record->blocks) block.hash = hash_bytes(bytes->data() + block.at, block.length);
  const std::string table = encode_table(record->blocks);
  record->root = hash_bytes(table.data(), table.size());
  bytes->replace(record->table.at, table.size(), table);
  std::fill(bytes->begin() + static_cast<ptrdiff_t>(record->table.at + table.size()),
            bytes->begin() + static_cast<ptrdiff_t>(record->table.end()), '\0');
  return true;
}

// Every byte of every piece comes out of its verified block as it is in the file.
void read_all(ModelIo& io, const std::string& checkpoint, const Manifest& manifest, size_t which,
              const std::string& stored) {
  const FileRecord& record = manifest.files[which];
  auto file = DataFile::open(io, checkpoint, manifest, which);
  must(static_cast<bool>(file), "a verified file opens");
  for (const TensorRecord& tensor : manifest.tensors) {
    for (const ShardRecord& shard : tensor.shards) {
      uint64_t left = volume(shard.box.extent).value_or(0) * tensor.dtype->size, at = shard.at;
      if (shard.file != which) continue;
      while (left > 0) {
        const size_t index = find_block(record.blocks, at);
        must(index < record.blocks.size(), "data has a block");
        auto bytes = file->read_block(index);
        must(static_cast<bool>(bytes), "a verified block is read");
        const Block& block = record.blocks[index];
        const uint64_t part = std::min(left, block.end() - at);
        must(std::memcmp(*bytes + (at - block.at), stored.data() + at, part) == 0, "the bytes read are those stored");
        at += part;
        left -= part;
      }
    }
  }
}

}  // namespace

void data_file(const uint8_t* data, size_t size) {
  static const Base base = load();
  Bytes input(data, size);
  const uint8_t mode = input.u8();
  const size_t which = input.u8() % base.nodes.size();
  ModelState disk = base.disk;
  Manifest manifest = base.manifest;
  const auto node = static_cast<size_t>(base.nodes[which]);
  const std::string& original = *base.disk.nodes[node].data;
  std::string bytes = original;
  patch(&input, &bytes);
  bool manifest_changed = false;
  if (mode & 2) {
    if (repair_table(&manifest.files[which], &bytes)) {
      repair_user_block(&manifest.files[which], &bytes);
      manifest_changed = true;
    }
  } else if (mode & 1) {
    repair_user_block(nullptr, &bytes);
  }
  disk.nodes[node].data = std::make_shared<std::string>(bytes);
  ModelIo io(disk, /*record=*/false);
  // As verify_checkpoint() does behind the manifest, which has a target of its own.
  bool verified = static_cast<bool>(check_manifest(manifest));
  if (verified) {
    auto file = DataFile::open(io, base.checkpoint, manifest, which);
    verified = static_cast<bool>(file);
    for (size_t b = 0; verified && b < manifest.files[which].blocks.size(); ++b)
      verified = static_cast<bool>(file->read_block(b));
  }
  // Spare bytes of a user block with a right checksum are nobody's; all else is noticed.
  if (!manifest_changed && (mode & 3) == 0)
    must(verified == (bytes == original), "exactly the undamaged file verifies");
  if (!manifest_changed && verified)
    must(bytes.size() == original.size() &&
             bytes.compare(kUserBlockBytes, std::string::npos, original, kUserBlockBytes, std::string::npos) == 0,
         "what verifies has the original data");
  if (verified) read_all(io, base.checkpoint, manifest, which, bytes);
}

}  // namespace dl::ckpt::fuzz
