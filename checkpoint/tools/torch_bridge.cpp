// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/torch_bridge.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "common/process/child_process.h"

namespace dl::ckpt::tool {
namespace {

// What both programs begin with.
constexpr const char* kCommon = R"(
import json, struct, sys
def fail(text):
    sys.stderr.write(str(text).strip().replace("\n", " ") + "\n")
    sys.exit(1)
try:
    import torch
except Exception as error:
    sys.stderr.write("no torch: %s\n" % error)
    sys.exit(77)
NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
         "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64",
         "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64", "C128": "complex128"}
)";

constexpr const char* kWrite = R"(
source = sys.stdin.buffer
def take(size):
    data = bytearray(size)
    view, have = memoryview(data), 0
    while have < size:
        got = source.readinto(view[have:])
        if not got:
            sys.exit(2)
        have += got
    return data
header = json.loads(bytes(take(struct.unpack("<Q", bytes(take(8)))[0])))
header.pop("__metadata__", None)
tensors = {}
for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
    dtype = getattr(torch, NAMES[entry["dtype"]], None)
    if dtype is None:
        fail("torch %s has no dtype %s" % (torch.__version__, NAMES[entry["dtype"]]))
    begin, end = entry["data_offsets"]
    data = take(end - begin)
    if data:
        tensors[name] = torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(entry["shape"])
    else:
        tensors[name] = torch.empty(entry["shape"], dtype=dtype)
# The end of the stream, not its mere stop, says that all is well.
if bytes(take(4)) != b"done":
    sys.exit(2)
try:
    torch.save(tensors, sys.argv[1])
except Exception as error:
    fail(error)
)";

constexpr const char* kRead = R"(
import inspect
arguments = {"map_location": "cpu", "weights_only": True}
parameters = inspect.signature(torch.load).parameters
if "weights_only" not in parameters:
    fail("torch %s cannot load safely (weights_only); 1.13 or later is needed" % torch.__version__)
def load():
    if "mmap" in parameters:
        try:
            return torch.load(sys.argv[1], mmap=True, **arguments)
        except RuntimeError:
            pass  # the older file format
    return torch.load(sys.argv[1], **arguments)
try:
    loaded = load()
except Exception as error:
    fail("torch cannot load it: %s" % str(error).split("\n")[0])
tensors, left = {}, 0
def walk(name, value):
    global left
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_quantized:
            fail("tensor '%s' is sparse or quantized" % name)
        if not name or name in tensors:
            fail("two tensors would have the name '%s'" % name)
        tensors[name] = value.detach()
    elif isinstance(value, dict):
        for key, item in value.items():
            walk("%s/%s" % (name, key) if name else str(key), item)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            walk("%s/%d" % (name, index) if name else str(index), item)
    else:
        left += 1
walk("", loaded)
names = {getattr(torch, ours): theirs for theirs, ours in NAMES.items() if hasattr(torch, ours)}
header, at = {}, 0
for name, tensor in tensors.items():
    if tensor.dtype not in names:
        fail("tensor '%s' has dtype %s, which checkpoints do not have" % (name, tensor.dtype))
    size = tensor.numel() * tensor.element_size()
    header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + size]}
    at += size
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
out = sys.stdout.buffer
try:
    out.write(struct.pack("<Q", len(text)) + text)
    for tensor in tensors.values():
        if tensor.is_conj():
            tensor = tensor.resolve_conj()
        if tensor.is_neg():
            tensor = tensor.resolve_neg()
        flat = tensor.contiguous().reshape(-1)
        if flat.is_complex():
            flat = torch.view_as_real(flat).reshape(-1)
        for begin in range(0, flat.numel(), 1 << 24):
            out.write(memoryview(flat[begin:begin + (1 << 24)].view(torch.uint8).numpy()))
    out.flush()
except Exception as error:
    fail(error)
if left:
    sys.stderr.write("%d value%s that are not tensors\n" % (left, "" if left == 1 else "s"))
)";

// A child whose complaints go to an unlinked file.
class Python {
 public:
  Status start(const std::string& python, const char* program, const std::string& path, int stdin_fd, int stdout_fd) {
    char name[] = "/tmp/dlckpt-XXXXXX";
    errors_.reset(::mkostemp(name, O_CLOEXEC));
    if (!errors_) return errno_error("open a temporary file in /tmp", errno);
    ::unlink(name);
    SpawnOptions options;
    options.argv = {python, "-c", std::string(kCommon) + program, path};
    options.stdin_fd = stdin_fd;
    options.stdout_fd = stdout_fd;
    options.stderr_fd = errors_.get();
    options.parent_death_signal = SIGKILL;
    auto pid = spawn_process(options);
    if (!pid)
      return Error{Errc::kUnsupported,
                   "torch files need a Python with torch: " + pid.error().text + "; --python names one"};
    pid_ = *pid;
    return {};
  }

  // Waits; the last line it wrote is the error, or on success what it has to say.
  Result<std::string> finish(const std::string& python) {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    const std::string said = last_line();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return said;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
      return Error{Errc::kUnsupported, "torch files need a Python with torch, and '" + python + "' has none (" + said +
                                           "); --python names another"};
    if (!said.empty()) return Error{Errc::kInvalid, said};
    return Error{Errc::kIo, "'" + python + "' ended with status " + std::to_string(shell_exit_code(status))};
  }

 private:
  std::string last_line() {
    std::string text(65536, '\0');
    const off_t end = ::lseek(errors_.get(), 0, SEEK_END);
    const off_t from = end > static_cast<off_t>(text.size()) ? end - static_cast<off_t>(text.size()) : 0;
    const ssize_t n = ::pread(errors_.get(), text.data(), text.size(), from);
    text.resize(n > 0 ? static_cast<size_t>(n) : 0);
    const std::string_view trimmed = trim(text);
    return printable(trimmed.substr(trimmed.rfind('\n') + 1), 300);
  }

  UniqueFd errors_;
  pid_t pid_ = -1;
};

}  // namespace

Status write_torch_file(const std::string& python, const std::string& path, const std::function<Status(int)>& feed) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error("make a pipe", errno);
  UniqueFd reader(ends[0]), writer(ends[1]);
  Python child;
  DL_TRY(child.start(python, kWrite, path, reader.get(), STDERR_FILENO));
  reader.reset();
  // A child that ends early shows as EPIPE, and then says why.
  ::signal(SIGPIPE, SIG_IGN);
  auto fed = feed(writer.get());
  if (fed && ::write(writer.get(), "done", 4) != 4) fed = errno_error("write to " + python, errno);
  writer.reset();
  auto outcome = child.finish(python);
  if (!fed && fed.error().sys_errno != EPIPE) return fed;
  if (!outcome) return std::move(outcome).error();
  return fed;
}

Result<std::string> read_torch_file(const std::string& python, const std::string& path, int out_fd) {
  Python child;
  DL_TRY(child.start(python, kRead, path, -1, out_fd));
  return child.finish(python);
}

}  // namespace dl::ckpt::tool
