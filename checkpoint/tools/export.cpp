// SPDX-License-Identifier: Apache-2.0
// dlckpt export: writes the tensors of a checkpoint, whole and unsharded, as safetensors, a torch file or plain HDF5.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "checkpoint/convert/hdf5_plan.h"
#include "checkpoint/convert/output_file.h"
#include "checkpoint/convert/python_record.h"
#include "checkpoint/convert/safetensors.h"
#include "checkpoint/format/names.h"
#include "checkpoint/read/parallel.h"
#include "checkpoint/read/tensor_stream.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/tools/command.h"
#include "checkpoint/tools/selection.h"
#include "checkpoint/tools/torch_bridge.h"
#include "common/base/parse.h"

namespace dl::ckpt::tool {
namespace {

struct ExportOptions {
  std::string path, safetensors, torch, h5, strip, max_shard_size, python = "python3";
  std::optional<int64_t> step;
  Selection selection;
  bool json = false, force = false;
};

// The request, and its results.
struct Export {
  std::string checkpoint;
  Manifest manifest;
  std::map<std::string, std::string> recorded;  // by path: the bytes of tensors that are in the record of attach()
  std::vector<NamedTensor> tensors;
  std::vector<std::string> files;  // files that were written
};

uint64_t bytes_of(const std::vector<NamedTensor>& tensors) {
  uint64_t total = 0;
  for (const NamedTensor& item : tensors) total += item.tensor->bytes();
  return total;
}

Piece piece_of(const Export& job, const TensorRecord* tensor, uint64_t at) {
  const auto known = job.recorded.find(tensor->path);
  return Piece{tensor, at, known == job.recorded.end() ? nullptr : &known->second};
}

// Adds the scalars that dlckpt.attach() has put into its record to the manifest's tensors.
Status add_recorded(Export* job) {
  for (const BlobRecord& blob : job->manifest.blobs) {
    if (blob.path != kPythonRecord) continue;
    std::string record(blob.size, '\0');
    TensorStream stream(posix_io(), job->checkpoint, job->manifest);
    DL_TRY(stream.read_blob(blob, record.data()));
    auto tensors = recorded_tensors(record);
    if (!tensors) {  // the tensors are no less sound for it
      complain("left out: scalars that are in the checkpoint's record: " + tensors.error().text);
      return {};
    }
    std::set<std::string> stored;
    for (const TensorRecord& tensor : job->manifest.tensors) stored.insert(tensor.path);
    for (RecordedTensor& tensor : *tensors) {
      if (!check_path(tensor.path) || !stored.insert(tensor.path).second) continue;
      TensorRecord added;
      added.path = tensor.path;
      added.dtype = tensor.dtype;
      added.shape = std::move(tensor.shape);
      job->manifest.tensors.push_back(std::move(added));
      job->recorded[tensor.path] = std::move(tensor.bytes);
    }
    std::sort(job->manifest.tensors.begin(), job->manifest.tensors.end(),
              [](const TensorRecord& a, const TensorRecord& b) { return a.path < b.path; });
    return {};
  }
  return {};
}

// Writes a head and the pieces after it as one file.
Status write_pieces(const Export& job, const std::string& head, uint64_t size, const std::vector<Piece>& pieces,
                    const std::string& title, OutputFile* out) {
  DL_TRY(out->file().reserve(size));
  DL_TRY(out->file().write_all(head.data(), head.size(), 0));
  ProgressBar bar(title);
  const Sink sink = [&](const void* bytes, size_t count, uint64_t at) {
    return out->file().write_all(bytes, count, at);
  };
  DL_TRY(copy_pieces(posix_io(), job.checkpoint, job.manifest, pieces, useful_threads(), sink,
                     [&](uint64_t done, uint64_t total) { bar.update(done, total); }));
  return out->sync();
}

// Plans the header and pieces of one safetensors file. kUnsupported for a dtype that it cannot hold.
Result<std::string> plan_safetensors(const Export& job, const std::vector<NamedTensor>& tensors, bool all_dtypes,
                                     std::vector<Piece>* pieces, uint64_t* size) {
  SafetensorsHeader header;
  // Loaders of Hugging Face require "format".
  header.metadata = {{"format", "pt"},
                     {"dlckpt.step", std::to_string(job.manifest.name.step)},
                     {"dlckpt.save_id", format_save_id(job.manifest.name.save_id)}};
  std::map<std::string, const TensorRecord*> by_name;
  for (const NamedTensor& item : tensors) {
    if (!all_dtypes && !safetensors_dtype(*item.tensor->dtype))
      return Error{Errc::kUnsupported, "safetensors has no " + std::string(item.tensor->dtype->name) + ", as tensor '" +
                                           printable(item.tensor->path) + "' is; leave it out with --exclude"};
    SafetensorsEntry entry;
    entry.name = item.name;
    entry.dtype = item.tensor->dtype;
    entry.shape = item.tensor->shape;
    header.entries.push_back(std::move(entry));
    by_name[item.name] = item.tensor;
  }
  std::string head = lay_out_safetensors(&header, all_dtypes);
  if (head.size() - 8 > kMaxSafetensorsHeader)
    return Error{Errc::kUnsupported,
                 "the names of the tensors are too long for one safetensors file; use --max-shard-size or --select"};
  for (const SafetensorsEntry& entry : header.entries)
    pieces->push_back(piece_of(job, by_name[entry.name], header.data_at + entry.at));
  *size = header.data_at + header.data_bytes;
  return head;
}

// Divides the tensors into files, in order, as many into each as fit; a tensor that is larger gets a file of its own.
std::vector<std::vector<NamedTensor>> split_by_size(const std::vector<NamedTensor>& tensors, uint64_t limit) {
  std::vector<std::vector<NamedTensor>> shards(1);
  uint64_t used = 0;
  for (const NamedTensor& item : tensors) {
    const uint64_t bytes = item.tensor->bytes();
    if (!shards.back().empty() && (bytes > limit || used > limit - bytes)) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(item);
    used += bytes;
  }
  return shards;
}

Status export_safetensors(const ExportOptions& options, Export* job) {
  uint64_t limit = kMaxBytes;
  if (!options.max_shard_size.empty()) {
    auto parsed = parse_bytes(options.max_shard_size);
    if (!parsed || *parsed == 0)
      return Error{Errc::kInvalid,
                   "--max-shard-size: '" + printable(options.max_shard_size) +
                       "' is not a size; allowed: bytes, or a number with KiB, MiB or GiB, such as 500M or 5GiB"};
    limit = *parsed;
  }
  const auto shards = split_by_size(job->tensors, limit);
  std::vector<OutputFile> outputs;
  SafetensorsIndex index;
  for (size_t s = 0; s < shards.size(); ++s) {
    const std::string path =
        shards.size() == 1 ? options.safetensors : safetensors_shard_name(options.safetensors, s, shards.size());
    std::vector<Piece> pieces;
    uint64_t size = 0;
    DL_TRY_ASSIGN(const std::string head, plan_safetensors(*job, shards[s], false, &pieces, &size));
    DL_TRY_ASSIGN(OutputFile out, OutputFile::create(posix_io(), path, options.force));
    DL_TRY(write_pieces(*job, head, size, pieces, path, &out));
    outputs.push_back(std::move(out));
    job->files.push_back(path);
    for (const NamedTensor& item : shards[s]) index.files[item.name] = path.substr(path.rfind('/') + 1);
  }
  if (shards.size() > 1) {
    index.total_bytes = bytes_of(job->tensors);
    const std::string path = options.safetensors + ".index.json";
    const std::string text = format_safetensors_index(index);
    DL_TRY_ASSIGN(OutputFile out, OutputFile::create(posix_io(), path, options.force));
    DL_TRY(out.file().write_all(text.data(), text.size(), 0));
    DL_TRY(out.sync());
    outputs.push_back(std::move(out));
    job->files.push_back(path);
  }
  // All files are durable now. The index is published last, so that the files that it names exist.
  for (OutputFile& out : outputs) DL_TRY(out.publish());
  return {};
}

Status write_fd(int fd, const void* bytes, size_t size) {
  const auto* from = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t n = ::write(fd, from, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("write to Python", errno);
    from += n;
    size -= static_cast<size_t>(n);
  }
  return {};
}

Status export_torch(const ExportOptions& options, Export* job) {
  std::vector<Piece> pieces;
  uint64_t size = 0;
  DL_TRY_ASSIGN(const std::string head, plan_safetensors(*job, job->tensors, true, &pieces, &size));
  DL_TRY_ASSIGN(OutputFile out, OutputFile::create(posix_io(), options.torch, options.force));
  const auto feed = [&](int fd) -> Status {
    DL_TRY(write_fd(fd, head.data(), head.size()));
    ProgressBar bar(options.torch);
    // with one thread, because a pipe needs the bytes in order
    return copy_pieces(
        posix_io(), job->checkpoint, job->manifest, pieces, 1,
        [&](const void* bytes, size_t count, uint64_t) { return write_fd(fd, bytes, count); },
        [&](uint64_t done, uint64_t total) { bar.update(done, total); });
  };
  DL_TRY(write_torch_file(options.python, out.temporary_path(), feed));
  DL_TRY(out.sync());
  job->files.push_back(options.torch);
  return out.publish();
}

Status export_h5(const ExportOptions& options, Export* job) {
  std::vector<Hdf5Dataset> datasets;
  for (const NamedTensor& item : job->tensors) {
    DL_TRY(check_path(item.name));  // --strip may leave an empty part
    Hdf5Dataset dataset;
    dataset.path = item.name;
    dataset.dtype = item.tensor->dtype;
    dataset.shape = item.tensor->shape;
    datasets.push_back(std::move(dataset));
  }
  const std::vector<Hdf5Attribute> attributes = {{"dlckpt.step", std::to_string(job->manifest.name.step)},
                                                 {"dlckpt.save_id", format_save_id(job->manifest.name.save_id)}};
  DL_TRY_ASSIGN(const Hdf5Plan plan, plan_hdf5(&datasets, attributes));
  std::vector<Piece> pieces;
  for (size_t i = 0; i < datasets.size(); ++i) pieces.push_back(piece_of(*job, job->tensors[i].tensor, datasets[i].at));
  DL_TRY_ASSIGN(OutputFile out, OutputFile::create(posix_io(), options.h5, options.force));
  DL_TRY(write_pieces(*job, plan.head, plan.size, pieces, options.h5, &out));
  job->files.push_back(options.h5);
  return out.publish();
}

int export_failed(const Error& error) {
  complain(error.text);
  if (error.code == Errc::kInvalid || error.code == Errc::kExists) return kUsage;
  return error.code == Errc::kCorrupt ? kDamaged : kNothing;
}

int run(const ExportOptions& options) {
  const Target target = resolve_target(options.path);
  auto newest = select_newest(target, options.step);
  if (!newest) return export_failed(newest.error());
  if (!newest->manifest) return export_failed(newest->manifest.error());
  Export job;
  job.checkpoint = checkpoint_path(target.dir, newest->name);
  job.manifest = std::move(*newest->manifest);
  if (const Status added = add_recorded(&job); !added)
    return export_failed(added.error().code == Errc::kCorrupt
                             ? error_or_gone(posix_io(), target.dir, newest->name, added.error())
                             : added.error());
  auto tensors = select_tensors(job.manifest, options.selection, options.strip);
  if (!tensors) return export_failed(tensors.error());
  job.tensors = *std::move(tensors);
  const auto done = !options.safetensors.empty() ? export_safetensors(options, &job)
                    : !options.torch.empty()     ? export_torch(options, &job)
                                                 : export_h5(options, &job);
  // What cannot be read of it may have been removed meanwhile. Other errors are of the new file.
  if (!done && done.error().code == Errc::kCorrupt)
    return export_failed(error_or_gone(posix_io(), target.dir, newest->name, done.error()));
  if (!done) return export_failed(done.error());
  if (options.json) {
    print_json(Json{{"checkpoint", job.checkpoint},
                    {"step", job.manifest.name.step},
                    {"files", job.files},
                    {"tensors", job.tensors.size()},
                    {"bytes", bytes_of(job.tensors)},
                    {"blobs_left_out", job.manifest.blobs.size()},
                    {"files_left_out", job.manifest.members.size()}});
    return kOk;
  }
  print_line(fmt::format("{}: {} tensor{}, {} of train step {}", job.files.back(), job.tensors.size(),
                         job.tensors.size() == 1 ? "" : "s", format_bytes(bytes_of(job.tensors)),
                         job.manifest.name.step));
  const size_t blobs = job.manifest.blobs.size(), files = job.manifest.members.size();
  std::string left_out;
  if (blobs > 0) left_out = fmt::format("{} blob{}", blobs, blobs == 1 ? "" : "s");
  if (files > 0)
    left_out +=
        fmt::format("{}{} file{} of the program", left_out.empty() ? "" : " and ", files, files == 1 ? "" : "s");
  if (!left_out.empty()) print_line(fmt::format("left out: {}, which only a checkpoint holds", left_out));
  return kOk;
}

}  // namespace

void add_export(CommandLine* line, int* exit_code) {
  auto* command = line->subcommand("export", "Write the tensors as safetensors, a torch file or plain HDF5");
  auto options = std::make_shared<ExportOptions>();
  command->argument("PATH", &options->path, "One checkpoint, or a checkpoint directory (its newest)").required();
  command->option("--safetensors", &options->safetensors, "Write this safetensors file");
  command->option("--torch", &options->torch, "Write this file, for torch.load");
  command->option("--h5,--expand", &options->h5,
                  "Write this HDF5 file, one dataset for each tensor (also for packed ones)");
  command->option("--step", &options->step, "The checkpoint of this train step").between(0, 9e18L);
  add_selection(command, &options->selection);
  command->option("--strip", &options->strip, "Take this off the front of names that begin with it ('model/')");
  command->option("--max-shard-size", &options->max_shard_size,
                  "safetensors: several files of at most this size, and an index (5GiB)");
  command->option("--python", &options->python, "torch: the Python to run").shows_default();
  command->flag("--force", &options->force, "Replace files that exist");
  command->flag("--json", &options->json, "Print one object");
  command->exactly_one_of({"--safetensors", "--torch", "--h5"});
  command->action([=] { *exit_code = run(*options); });
}

}  // namespace dl::ckpt::tool
