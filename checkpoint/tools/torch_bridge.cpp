// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/torch_bridge.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

#include "checkpoint/tools/python_readers.h"
#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "common/process/child_process.h"

namespace dl::ckpt::tool {
namespace {

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

// A Python child whose messages go to an unlinked file.
class Python {
 public:
  // For messages: the files that it reads or writes, as users call them, and the module that it needs for that.
  Python(std::string files, std::string needs) : files_(std::move(files)), needs_(std::move(needs)) {}

  Status start(const std::string& python, const std::string& program, const std::string& path, int stdin_fd,
               int stdout_fd) {
    char name[] = "/tmp/dlckpt-XXXXXX";
    errors_.reset(::mkostemp(name, O_CLOEXEC));
    if (!errors_) return errno_error("open a temporary file in /tmp", errno);
    ::unlink(name);
    SpawnOptions options;
    options.argv = {python, "-c", program, path};
    options.stdin_fd = stdin_fd;
    options.stdout_fd = stdout_fd;
    options.stderr_fd = errors_.get();
    options.parent_death_signal = SIGKILL;
    auto pid = spawn_process(options);
    if (!pid) return Error{Errc::kUnsupported, what_is_needed() + ": " + pid.error().text + "; --python names one"};
    pid_ = *pid;
    return {};
  }

  // Waits until the child has ended. The last line that it wrote is the error, or on success its remark.
  Result<std::string> finish(const std::string& python) {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    const std::string said = last_line();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return said;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
      return Error{Errc::kUnsupported,
                   what_is_needed() + ", and '" + python + "' has none (" + said + "); --python names another"};
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

  std::string what_is_needed() const { return files_ + " files need a Python with " + needs_; }

  std::string files_, needs_;
  UniqueFd errors_;
  pid_t pid_ = -1;
};

}  // namespace

Status write_torch_file(const std::string& python, const std::string& path, const std::function<Status(int)>& feed) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error("make a pipe", errno);
  UniqueFd reader(ends[0]), writer(ends[1]);
  Python child("torch", "torch");
  DL_TRY(child.start(python, std::string(kCommon) + kTorchNames + kWrite, path, reader.get(), STDERR_FILENO));
  reader.reset();
  // A child that ends early causes EPIPE here, and its last line says why it ended.
  ::signal(SIGPIPE, SIG_IGN);
  auto fed = feed(writer.get());
  if (fed && ::write(writer.get(), "done", 4) != 4) fed = errno_error("write to " + python, errno);
  writer.reset();
  auto outcome = child.finish(python);
  if (!fed && fed.error().sys_errno != EPIPE) return fed;
  if (!outcome) return std::move(outcome).error();
  return fed;
}

Result<std::string> read_with_python(const PythonReader& reader, const std::string& python, const std::string& path,
                                     int out_fd) {
  Python child(reader.files, reader.needs);
  DL_TRY(child.start(python, python_program(reader), path, -1, out_fd));
  return child.finish(python);
}

}  // namespace dl::ckpt::tool
