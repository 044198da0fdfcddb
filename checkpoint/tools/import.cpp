// SPDX-License-Identifier: Apache-2.0
// dlckpt import: makes a checkpoint from the tensors of other formats. libdlckpt writes it like any other.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "checkpoint/convert/output_file.h"
#include "checkpoint/convert/safetensors.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/quiet_thread.h"
#include "checkpoint/tools/command.h"
#include "checkpoint/tools/engine_library.h"
#include "checkpoint/tools/selection.h"
#include "checkpoint/tools/torch_bridge.h"
#include "common/base/parse.h"
#include "common/base/unique_fd.h"

namespace dl::ckpt::tool {
namespace {

constexpr int kKeepAll = 1000000;  // the largest value that libdlckpt accepts, so that an import retires nothing

struct ImportOptions {
  std::string safetensors, torch, dcp, hdf5, dir, prefix, python = "python3";
  int64_t step = 0;
  Selection selection;
  bool json = false;
};

// A file mapped into memory.
class Mapping {
 public:
  static Result<Mapping> of(int fd, const std::string& path) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) return errno_error("stat " + path, errno);
    const auto size = static_cast<size_t>(info.st_size);
    void* data = size ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : nullptr;
    if (data == MAP_FAILED) return errno_error("map " + path, errno);
    return Mapping(static_cast<unsigned char*>(data), size);
  }
  Mapping(Mapping&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  Mapping& operator=(Mapping&&) = delete;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data_) ::munmap(data_, size_);
  }
  unsigned char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Mapping(unsigned char* data, size_t size) : data_(data), size_(size) {}
  unsigned char* data_;
  size_t size_;
};

struct SourceTensor {
  std::string name;
  const DtypeInfo* dtype = nullptr;
  Dims shape;
  unsigned char* data = nullptr;  // points into a mapping
  uint64_t bytes = 0;
};

struct Source {
  std::vector<Mapping> files;
  std::vector<SourceTensor> tensors;
  std::string left_out;  // for the user; may be empty
};

Status add_file(int fd, const std::string& path, bool all_dtypes, Source* source, std::set<std::string>* names) {
  DL_TRY_ASSIGN(Mapping file, Mapping::of(fd, path));
  unsigned char length_bytes[8];
  if (file.size() < sizeof length_bytes)
    return Error{Errc::kCorrupt, path + ": it is too short for a safetensors file"};
  const uint64_t length = get_u64(file.data());
  if (length > kMaxSafetensorsHeader || length > file.size() - 8)
    return Error{Errc::kCorrupt,
                 path + ": its header would have " + std::to_string(length) + " bytes: not a safetensors file"};
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
  auto header = parse_safetensors(text, file.size() - 8 - length, all_dtypes);
  if (!header) return std::move(header).error().with_context(path);
  for (const SafetensorsEntry& entry : header->entries) {
    if (!names->insert(entry.name).second)
      return Error{Errc::kCorrupt, path + ": tensor '" + printable(entry.name) + "' is in another file too"};
    source->tensors.push_back(
        SourceTensor{entry.name, entry.dtype, entry.shape, file.data() + header->data_at + entry.at, entry.bytes});
  }
  source->files.push_back(std::move(file));
  return {};
}

Status add_path(const std::string& path, Source* source, std::set<std::string>* names) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a FIFO must be refused, not waited for
  if (!fd) return errno_error("open " + path, errno);
  return add_file(fd.get(), path, false, source, names);
}

// Adds every file that the index names. Each must have exactly the tensors that the index lists for it.
Status add_indexed(const std::string& path, Source* source) {
  DL_TRY_ASSIGN(const std::string text, read_small_file(posix_io(), path, kMaxSafetensorsHeader));
  auto index = parse_safetensors_index(text);
  if (!index) return std::move(index).error().with_context(path);
  std::map<std::string, std::set<std::string>> expected;  // file -> tensors
  for (const auto& [name, file] : index->files) expected[file].insert(name);
  std::set<std::string> names;
  for (const auto& [file, tensors] : expected) {
    const size_t before = source->tensors.size();
    DL_TRY(add_path(parent_directory(path) + "/" + file, source, &names));
    std::set<std::string> found;
    for (size_t i = before; i < source->tensors.size(); ++i) found.insert(source->tensors[i].name);
    if (found != tensors)
      return Error{Errc::kCorrupt, path + ": it does not agree with " + file + " about the tensors"};
  }
  return {};
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

Status add_with_python(const PythonReader& reader, const std::string& path, const ImportOptions& options,
                       Source* source) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || ::access(path.c_str(), R_OK) != 0) return errno_error("open " + path, errno);
  const bool wants_folder = &reader == &kDcpReader;
  if (wants_folder ? !S_ISDIR(info.st_mode) : !S_ISREG(info.st_mode))
    return Error{Errc::kInvalid, path + " is not a " + (wants_folder ? "directory" : "regular file")};
  // The conversion goes into a file without a name, so that nothing can be left behind.
  UniqueFd fd(::open(options.dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd) {
    std::string name = options.dir + "/.tmp-import-XXXXXX";
    fd.reset(::mkostemp(name.data(), O_CLOEXEC));
    if (!fd) return errno_error("make a temporary file in " + options.dir, errno);
    ::unlink(name.c_str());
  }
  DL_TRY_ASSIGN(source->left_out, read_with_python(reader, options.python, path, fd.get()));
  std::set<std::string> names;
  return add_file(fd.get(), path, true, source, &names);
}

Status add_source(const ImportOptions& options, Source* source) {
  if (!options.torch.empty()) return add_with_python(kTorchReader, options.torch, options, source);
  if (!options.dcp.empty()) return add_with_python(kDcpReader, options.dcp, options, source);
  if (!options.hdf5.empty()) return add_with_python(kHdf5Reader, options.hdf5, options, source);
  if (ends_with(options.safetensors, ".json")) return add_indexed(options.safetensors, source);
  std::set<std::string> names;
  return add_path(options.safetensors, source, &names);
}

// Keeps only the selected tensors, and gives them their names in the checkpoint.
Status rename_and_select(const ImportOptions& options, Source* source) {
  std::vector<SourceTensor> kept;
  for (SourceTensor& tensor : source->tensors) {
    if (!options.selection.matches(tensor.name)) continue;
    tensor.name = options.prefix + tensor.name;
    auto allowed = check_path(tensor.name);
    if (!allowed) return Error{Errc::kUnsupported, "tensor '" + printable(tensor.name) + "': " + allowed.error().text};
    kept.push_back(std::move(tensor));
  }
  if (kept.empty()) return Error{Errc::kNotFound, options.selection.nothing_matches()};
  source->tensors = std::move(kept);
  return {};
}

Status refuse_second(const ImportOptions& options) {
  DL_TRY_ASSIGN(const std::vector<CheckpointName> names, scan_checkpoints(posix_io(), options.dir));
  for (const CheckpointName& name : names)
    if (name.step == options.step)
      return Error{Errc::kExists, options.dir + " has a checkpoint of train step " + std::to_string(options.step) +
                                      " already: " + format_checkpoint_name(name)};
  return {};
}

// Keeps the mapped files from filling memory while a save reads them from beginning to end: every few milliseconds it
// releases all of their pages. No page was changed, so pages that are still needed are mapped again from the page
// cache, or read again.
class LettingGo {
 public:
  explicit LettingGo(const std::vector<Mapping>& files) {
    auto thread = QuietThread::start([this, &files] {
      std::unique_lock<std::mutex> lock(mutex_);
      while (!ended_.wait_for(lock, std::chrono::milliseconds(5), [this] { return over_; }))
        for (const Mapping& file : files)
          if (file.size()) ::madvise(file.data(), file.size(), MADV_DONTNEED);
    });
    if (thread) thread_ = std::move(*thread);  // without the thread the import only needs more memory
  }
  LettingGo(const LettingGo&) = delete;
  LettingGo& operator=(const LettingGo&) = delete;
  ~LettingGo() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  QuietThread thread_;
};

Result<CheckpointName> save(const ImportOptions& options, const Source& source) {
  DL_TRY_ASSIGN(const Engine engine, load_engine());
  leave_job_environment(/*keep_tuning=*/false);
  // In this mode a save needs no staging memory for all of the data.
  ::setenv("DL_CHECKPOINT_MODE", "sync", 1);
  ::setenv("DL_CHECKPOINT_MEMORY", "64M", 1);
  DL_TRY_ASSIGN(dlckpt_ctx * ctx, open_single(engine, options.dir, "import-" + format_save_id(random_u64()), kKeepAll));
  EngineContext context(engine, ctx);
  for (const SourceTensor& tensor : source.tensors)
    DL_TRY(
        context.check(engine.tensor(ctx, tensor.name.c_str(), tensor.dtype->id, static_cast<int>(tensor.shape.size()),
                                    tensor.shape.data(), nullptr, nullptr, tensor.data, DLCKPT_REPLICATED)));
  {
    const LettingGo letting_go(source.files);
    DL_TRY(context.check(engine.save(ctx, options.step)));
  }
  context.close();
  DL_TRY_ASSIGN(const std::vector<CheckpointName> names, scan_checkpoints(posix_io(), options.dir));
  for (const CheckpointName& name : names)
    if (name.step == options.step) return name;
  return Error{Errc::kInternal, "the checkpoint is not there after its save"};
}

Result<CheckpointName> import(const ImportOptions& options, Source* source) {
  DL_TRY(make_directory(options.dir));
  DL_TRY(refuse_second(options));
  DL_TRY(add_source(options, source));
  DL_TRY(rename_and_select(options, source));
  return save(options, *source);
}

int run(const ImportOptions& options) {
  Source source;
  auto name = import(options, &source);
  if (!name) {
    complain(name.error().text);
    if (name.error().code == Errc::kInvalid || name.error().code == Errc::kExists) return kUsage;
    return name.error().code == Errc::kCorrupt ? kDamaged : kNothing;
  }
  uint64_t bytes = 0;
  for (const SourceTensor& tensor : source.tensors) bytes += tensor.bytes;
  if (options.json) {
    print_json(Json{{"dir", options.dir},
                    {"name", format_checkpoint_name(*name)},
                    {"step", name->step},
                    {"tensors", source.tensors.size()},
                    {"bytes", bytes}});
    return kOk;
  }
  print_line(fmt::format("{}/{}: {} tensor{}, {}", options.dir, format_checkpoint_name(*name), source.tensors.size(),
                         source.tensors.size() == 1 ? "" : "s", format_bytes(bytes)));
  if (!source.left_out.empty()) print_line("left out: " + source.left_out);
  return kOk;
}

}  // namespace

void add_import(CommandLine* line, int* exit_code) {
  auto* command = line->subcommand("import", "Make a checkpoint from tensors of another format");
  auto options = std::make_shared<ImportOptions>();
  command->option("--safetensors", &options->safetensors, "A safetensors file, or model.safetensors.index.json");
  command->option("--torch", &options->torch, "A file written by torch.save; only tensors are taken, no code is run");
  command->option("--dcp", &options->dcp,
                  "A directory of torch.distributed.checkpoint; only tensors are taken, no code is run");
  command->option("--hdf5", &options->hdf5, "An HDF5 file of any program; datasets of numbers are taken");
  command->argument("DIR", &options->dir, "Checkpoint directory; made if it does not exist").required();
  command->option("--step", &options->step, "Train step of the checkpoint").required().between(0, kMaxStep);
  add_selection(command, &options->selection);
  command->option("--prefix", &options->prefix, "Put this in front of every name ('model/')");
  command->option("--python", &options->python, "torch, dcp, hdf5: the Python to run").shows_default();
  command->flag("--json", &options->json, "Print one object");
  command->exactly_one_of({"--safetensors", "--torch", "--dcp", "--hdf5"});
  command->action([=] { *exit_code = run(*options); });
}

}  // namespace dl::ckpt::tool
