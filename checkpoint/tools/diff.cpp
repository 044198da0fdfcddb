// SPDX-License-Identifier: Apache-2.0
// dlckpt diff: shows how two checkpoints differ, tensor by tensor, however each of them is sharded.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/convert/compare.h"
#include "checkpoint/levels/verified_copy.h"
#include "checkpoint/read/parallel.h"
#include "checkpoint/read/tensor_stream.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/tools/command.h"
#include "checkpoint/tools/selection.h"
#include "common/base/parse.h"

namespace dl::ckpt::tool {
namespace {

// The same exit codes as those of diff(1), so that a script learns whether there is a difference.
enum DiffExit { kEqual = 0, kDifferent = 1, kTrouble = 2 };

constexpr uint64_t kChunkBytes = uint64_t{4} << 20;

struct DiffOptions {
  std::string path_a, path_b;
  std::optional<int64_t> step_a, step_b;
  std::optional<double> tolerance;
  Selection selection;
  bool json = false, all = false, quiet = false;
};

// One of the two checkpoints.
struct Side {
  std::string dir, checkpoint;
  Manifest manifest;
};

enum class State { kEqual, kDiffers, kOnlyA, kOnlyB, kDtype, kShape };
constexpr const char* kStateNames[] = {"equal", "differs", "only in A", "only in B", "other dtype", "other shape"};

struct Row {
  std::string path;
  const char* kind = "tensor";  // or "blob", or "file": a member, which the program wrote itself
  State state = State::kEqual;
  const TensorRecord *a = nullptr, *b = nullptr;  // set for tensors
  Difference difference;                          // set if both have the same dtype and shape
};

struct Chunk {
  size_t row;
  uint64_t at, bytes;
};

Result<Side> open_side(const std::string& path, const std::optional<int64_t>& step) {
  const Target target = resolve_target(path);
  DL_TRY_ASSIGN(Newest newest, select_newest(target, step));
  DL_TRY_ASSIGN(Manifest manifest, std::move(newest.manifest));
  return Side{target.dir, checkpoint_path(target.dir, newest.name), std::move(manifest)};
}

// The rows of both sides, sorted by path. Rows that need no data are decided here.
std::vector<Row> pair_up(const Manifest& a, const Manifest& b, const Selection& selection) {
  std::vector<Row> rows;
  size_t i = 0, j = 0;
  while (i < a.tensors.size() || j < b.tensors.size()) {
    Row row;
    if (i < a.tensors.size() && (j == b.tensors.size() || a.tensors[i].path <= b.tensors[j].path))
      row.a = &a.tensors[i];
    if (j < b.tensors.size() && (i == a.tensors.size() || b.tensors[j].path <= a.tensors[i].path))
      row.b = &b.tensors[j];
    i += row.a ? 1 : 0;
    j += row.b ? 1 : 0;
    const TensorRecord* either = row.a ? row.a : row.b;
    if (!either) break;  // cannot happen: one of the two lists has a next tensor
    row.path = either->path;
    if (!selection.matches(row.path)) continue;
    if (!row.b) {
      row.state = State::kOnlyA;
    } else if (!row.a) {
      row.state = State::kOnlyB;
    } else if (row.a->dtype != row.b->dtype) {
      row.state = State::kDtype;
    } else if (row.a->shape != row.b->shape) {
      row.state = State::kShape;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string blob_title(const BlobRecord& blob) {
  return blob.rank < 0 ? blob.path : fmt::format("{} (rank {})", blob.path, blob.rank);
}

Result<std::string> blob_bytes(const Side& side, const BlobRecord& blob) {
  std::string bytes(blob.size, '\0');
  TensorStream stream(posix_io(), side.checkpoint, side.manifest);
  DL_TRY(stream.read_blob(blob, bytes.data()));
  return bytes;
}

Status compare_blobs(const Side& a, const Side& b, const Selection& selection, std::vector<Row>* rows) {
  const auto find = [](const Manifest& manifest, const BlobRecord& wanted) -> const BlobRecord* {
    for (const BlobRecord& blob : manifest.blobs)
      if (blob.path == wanted.path && blob.rank == wanted.rank) return &blob;
    return nullptr;
  };
  const auto add = [&](const BlobRecord& blob, State state) {
    Row row;
    row.path = blob_title(blob);
    row.kind = "blob";
    row.state = state;
    rows->push_back(std::move(row));
  };
  for (const BlobRecord& blob : a.manifest.blobs) {
    if (!selection.matches(blob.path)) continue;
    const BlobRecord* other = find(b.manifest, blob);
    if (!other || other->size != blob.size) {
      add(blob, other ? State::kDiffers : State::kOnlyA);
      continue;
    }
    DL_TRY_ASSIGN(const std::string bytes_a, blob_bytes(a, blob));
    DL_TRY_ASSIGN(const std::string bytes_b, blob_bytes(b, *other));
    add(blob, bytes_a == bytes_b ? State::kEqual : State::kDiffers);
  }
  for (const BlobRecord& blob : b.manifest.blobs)
    if (selection.matches(blob.path) && !find(a.manifest, blob)) add(blob, State::kOnlyB);
  return {};
}

// Compares members. Both are read and verified; equal checksums then mean equal bytes, because all files are cut into
// blocks in the same way.
Status compare_members(const Side& a, const Side& b, const Selection& selection, std::vector<Row>* rows) {
  const auto find = [](const Manifest& manifest, const MemberRecord& wanted) -> const MemberRecord* {
    for (const MemberRecord& member : manifest.members)
      if (member.name == wanted.name && member.rank == wanted.rank) return &member;
    return nullptr;
  };
  const auto add = [&](const MemberRecord& member, State state) {
    Row row;
    row.path = member.rank < 0 ? member.name : fmt::format("{} (rank {})", member.name, member.rank);
    row.kind = "file";
    row.state = state;
    rows->push_back(std::move(row));
  };
  const auto verify = [](const Side& side, const MemberRecord& member) {
    return verify_stored_file(posix_io(), side.checkpoint, side.manifest,
                              StoredFile{member.file, member.size, &member.blocks, SIZE_MAX, 0});
  };
  for (const MemberRecord& member : a.manifest.members) {
    if (!selection.matches(member.name)) continue;
    const MemberRecord* other = find(b.manifest, member);
    if (!other) {
      add(member, State::kOnlyA);
      continue;
    }
    DL_TRY(verify(a, member));
    DL_TRY(verify(b, *other));
    add(member, member.size == other->size && member.root == other->root ? State::kEqual : State::kDiffers);
  }
  for (const MemberRecord& member : b.manifest.members)
    if (selection.matches(member.name) && !find(a.manifest, member)) add(member, State::kOnlyB);
  return {};
}

// Reads the tensors that have to be compared, in pieces, and sets the rows' differences.
Status compare_tensors(const Side& a, const Side& b, std::vector<Row>* rows) {
  std::vector<Chunk> chunks;
  uint64_t total = 0, done = 0;
  for (size_t r = 0; r < rows->size(); ++r) {
    const Row& row = (*rows)[r];
    if (!row.a || row.state != State::kEqual) continue;
    const uint64_t bytes = row.a->bytes();
    const uint64_t step = kChunkBytes / row.a->dtype->size * row.a->dtype->size;
    for (uint64_t at = 0; at < bytes; at += step) chunks.push_back(Chunk{r, at, std::min(step, bytes - at)});
    total += bytes;
  }
  struct Comparer {
    TensorStream a, b;
    std::vector<unsigned char> bytes_a, bytes_b;
  };
  std::vector<Comparer> comparers;
  const size_t count = std::max<size_t>(1, std::min(useful_threads(), chunks.size()));
  comparers.reserve(count);
  for (size_t i = 0; i < count; ++i)
    comparers.push_back(Comparer{TensorStream(posix_io(), a.checkpoint, a.manifest),
                                 TensorStream(posix_io(), b.checkpoint, b.manifest),
                                 {},
                                 {}});
  ProgressBar bar("compare");
  std::mutex mutex;
  return for_each_parallel(chunks.size(), count, [&](size_t index, size_t number) -> Status {
    const Chunk& chunk = chunks[index];
    Row& row = (*rows)[chunk.row];
    Comparer& comparer = comparers[number];
    comparer.bytes_a.resize(std::max<size_t>(comparer.bytes_a.size(), chunk.bytes));
    comparer.bytes_b.resize(std::max<size_t>(comparer.bytes_b.size(), chunk.bytes));
    DL_TRY(comparer.a.read(*row.a, chunk.at, chunk.bytes, comparer.bytes_a.data()));
    DL_TRY(comparer.b.read(*row.b, chunk.at, chunk.bytes, comparer.bytes_b.data()));
    const size_t size = row.a->dtype->size;
    const Difference found =
        compare(*row.a->dtype, comparer.bytes_a.data(), comparer.bytes_b.data(), chunk.bytes / size, chunk.at / size);
    const std::lock_guard<std::mutex> lock(mutex);
    row.difference.merge(found);
    done += chunk.bytes;
    bar.update(done, total);
    return {};
  });
}

// The position of a C order index: "[3, 17]".
std::string position(const Dims& shape, uint64_t index) {
  Dims at(shape.size());
  for (size_t d = shape.size(); d > 0; --d) {
    const auto size = static_cast<uint64_t>(std::max<int64_t>(shape[d - 1], 1));
    at[d - 1] = static_cast<int64_t>(index % size);
    index /= size;
  }
  return describe(at);
}

// JSON cannot express infinity.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(value > 0 ? "inf" : "-inf");
}

Json to_json(const Row& row) {
  Json json{{"path", row.path}, {"kind", row.kind}, {"state", kStateNames[static_cast<int>(row.state)]}};
  if (row.a) json["a"] = {{"dtype", row.a->dtype->name}, {"shape", row.a->shape}};
  if (row.b) json["b"] = {{"dtype", row.b->dtype->name}, {"shape", row.b->shape}};
  if (!row.a || !row.b || (row.state != State::kEqual && row.state != State::kDiffers)) return json;
  const Difference& d = row.difference;
  json["elements"] = d.elements;
  json["elements_differ"] = d.bits_differ;
  json["max_abs"] = number(d.max_abs);
  json["mean_abs"] = number(d.mean_abs());
  json["max_relative"] = number(d.max_relative);
  json["max_at"] = d.max_at;
  json["nan_a"] = d.nan_a;
  json["nan_b"] = d.nan_b;
  json["nan_apart"] = d.nan_apart;
  return json;
}

std::string details(const Row& row) {
  switch (row.state) {
    case State::kOnlyA:
    case State::kOnlyB: {
      const TensorRecord* tensor = row.a ? row.a : row.b;
      return tensor ? fmt::format("{} {}", tensor->dtype->name, describe(tensor->shape)) : row.kind;
    }
    case State::kDtype:
      return fmt::format("{} -> {}", row.a->dtype->name, row.b->dtype->name);
    case State::kShape:
      return fmt::format("{} -> {}", describe(row.a->shape), describe(row.b->shape));
    default:
      break;
  }
  if (!row.a) return row.kind;
  const Difference& d = row.difference;
  std::string text;
  if (d.bits_differ > 0)
    text = fmt::format("max {:.3g} at {}, mean {:.3g}, relative {:.3g}, {} of {} elements", d.max_abs,
                       position(row.a->shape, d.max_at), d.mean_abs(), d.max_relative, d.bits_differ, d.elements);
  if (d.nan_a + d.nan_b > 0) text += fmt::format("{}NaN {} in A, {} in B", text.empty() ? "" : ", ", d.nan_a, d.nan_b);
  return text;
}

void print_text(const DiffOptions& options, const std::vector<Row>& rows, size_t equal) {
  size_t width = 4;
  for (const Row& row : rows)
    if (options.all || row.state != State::kEqual) width = std::max(width, printable(row.path, 200).size());
  width = std::min<size_t>(width, 60);
  for (const Row& row : rows)
    if (options.all || row.state != State::kEqual)
      print_line(fmt::format("{:11}  {:{}}  {}", kStateNames[static_cast<int>(row.state)], printable(row.path, 200),
                             width, details(row)));
  print_line(fmt::format(
      "{} of {} {}", equal, rows.size(),
      options.tolerance ? fmt::format("equal within {:g}", *options.tolerance) : std::string("equal bit for bit")));
}

int in_trouble(const Error& error) {
  complain(error.text);
  return kTrouble;
}

int run(const DiffOptions& options) {
  auto a = open_side(options.path_a, options.step_a);
  if (!a) return in_trouble(a.error());
  auto b = open_side(options.path_b, options.step_b);
  if (!b) return in_trouble(b.error());
  std::vector<Row> rows = pair_up(a->manifest, b->manifest, options.selection);
  // What cannot be read of one of them may have been removed meanwhile.
  const auto fail_reading = [&](Error error) {
    for (const Side* side : {&*a, &*b})
      if (is_gone(posix_io(), side->dir, side->manifest.name))
        return in_trouble(gone_error(posix_io(), side->dir, side->manifest.name));
    return in_trouble(error);
  };
  auto done = compare_tensors(*a, *b, &rows);
  if (!done) return fail_reading(done.error());
  for (Row& row : rows) {
    if (row.state != State::kEqual) continue;
    const bool same = options.tolerance ? row.difference.within(*options.tolerance) : row.difference.bits_differ == 0;
    if (!same) row.state = State::kDiffers;
  }
  done = compare_blobs(*a, *b, options.selection, &rows);
  if (done) done = compare_members(*a, *b, options.selection, &rows);
  if (!done) return fail_reading(done.error());
  if (rows.empty()) return in_trouble(Error{Errc::kNotFound, options.selection.nothing_matches()});
  const auto equal = static_cast<size_t>(
      std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.state == State::kEqual; }));
  if (options.json) {
    Json json{{"a", a->checkpoint}, {"b", b->checkpoint}, {"equal", equal == rows.size()}, {"rows", Json::array()}};
    for (const Row& row : rows) json["rows"].push_back(to_json(row));
    print_json(json);
  } else if (!options.quiet) {
    print_line("A: " + a->checkpoint + "\nB: " + b->checkpoint);
    print_text(options, rows, equal);
  }
  return equal == rows.size() ? kEqual : kDifferent;
}

}  // namespace

void add_diff(CommandLine* line, int* exit_code) {
  auto* command = line->subcommand("diff", "Compare two checkpoints tensor by tensor, whatever their sharding");
  auto options = std::make_shared<DiffOptions>();
  command->argument("A", &options->path_a, "One checkpoint, or a checkpoint directory (its newest)").required();
  command->argument("B", &options->path_b, "The other").required();
  command->option("--step-a", &options->step_a, "In A, the checkpoint of this train step").between(0, 9e18L);
  command->option("--step-b", &options->step_b, "In B, the checkpoint of this train step").between(0, 9e18L);
  command
      ->option("--tolerance", &options->tolerance,
               "Elements no further apart than this are equal (without it: bit for bit)")
      .between(0, 9e18L);
  add_selection(command, &options->selection);
  command->flag("-a,--all", &options->all, "List equal tensors too");
  command->flag("-q,--quiet", &options->quiet, "Print nothing; the exit status tells");
  command->flag("--json", &options->json, "Print one object");
  command->action([=] { *exit_code = run(*options); });
}

}  // namespace dl::ckpt::tool
