// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/job_dir.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>

#include "common/base/atomic_file.h"
#include "common/base/unique_fd.h"
#include "common/contract/path_pattern.h"
#include "common/json/json.h"

namespace dl::record {
namespace {

constexpr size_t kMaxFile = kMaxControlBytes;

std::string dump(const Json& object) {
  return object.dump_sorted(1) + "\n";
}

Result<Json> read_object(const std::string& path, Result<std::string> text) {
  if (!text) return std::move(text).error();
  Json object = Json::parse(*text);
  if (!object.is_object()) return Error{Errc::kInvalid, path + ": not a JSON object"};
  return object;
}

std::string text_of(const Json& object, const char* key) {
  auto it = object.find(key);
  return it != nullptr && it->is_string() ? it->get<std::string>() : std::string();
}

int64_t number_of(const Json& object, const char* key) {
  auto it = object.find(key);
  return it != nullptr && it->is_number_integer() ? it->get<int64_t>() : 0;
}

// The owner that new files of this process get in a folder; no value if none can be made. That is another user than the
// process has where a server or a mount changes users: NFS makes files of root belong to nobody (root_squash), and CIFS
// all files to one user.
std::optional<uid_t> owner_of_new_files(const std::string& folder) {
  std::string path = folder + "/.owner-XXXXXX";
  const UniqueFd fd(::mkostemp(path.data(), O_CLOEXEC));
  if (!fd) return std::nullopt;
  struct stat status {};
  const bool known = ::fstat(fd.get(), &status) == 0;
  ::unlink(path.c_str());
  return known ? std::optional<uid_t>(status.st_uid) : std::nullopt;
}

// The names of job directories can be guessed. Whoever owns one, or the link in its place, reads the job's logs, may
// have its files written elsewhere, and can ask the job to stop.
Status check_owner(const std::string& path) {
  struct stat status {};
  for (const auto look : {::lstat, ::stat}) {
    if (look(path.c_str(), &status) != 0) return errno_error("look at " + path, errno);
    const uid_t owner = status.st_uid;
    const bool link = S_ISLNK(status.st_mode);
    if (owner == ::geteuid() || owner == 0 || (!link && owner_of_new_files(path) == owner)) continue;
    return Error{Errc::kDenied,
                 fmt::format("{}: this job directory{} belongs to another user (uid {}), who could change "
                             "what the job does; allowed: one that you (uid {}) or root own, or a path "
                             "where nothing is yet (--job-dir); chown(1) gives a directory to another user",
                             path, link ? ", a link," : "", owner, ::geteuid())};
  }
  return {};
}

}  // namespace

Status JobDir::make(mode_t mode) const {
  const size_t slash = root_.rfind('/');
  if (slash != std::string::npos && slash > 0) DL_TRY(make_directories(root_.substr(0, slash)));
  if (::mkdir(root_.c_str(), mode) == 0) {
    // The site has configured this mode, so the umask must not reduce it.
    if (::chmod(root_.c_str(), mode) != 0) return errno_error("set the mode of " + root_, errno);
    return {};
  }
  // The folder exists already, with a mode that somebody chose; otherwise this returns the error.
  if (errno == EEXIST) DL_TRY(check_owner(root_));
  return make_directories(root_);
}

Status JobDir::prepare(int attempt) const {
  DL_TRY(make_directories(attempt_logs(attempt)));
  ignore(make_directories(attempt_metrics(attempt)), "a job trains without metrics; its agent says what is missing");
  DL_TRY(make_directories(results()));
  std::string link = logs() + "/latest", temporary = fmt::format("{}.tmp-{}", link, ::getpid());
  ::unlink(temporary.c_str());
  std::string target = "attempt-" + std::to_string(attempt);
  if (::symlink(target.c_str(), temporary.c_str()) != 0) return errno_error("create " + temporary, errno);
  if (::rename(temporary.c_str(), link.c_str()) != 0) {
    int failure = errno;
    ::unlink(temporary.c_str());
    return errno_error("create " + link, failure);
  }
  return {};
}

std::string expand_job_dir(const std::string& pattern, const std::string& base, const PathNames& names) {
  auto path = expand_path(pattern, names);
  if (!path || path->empty()) return {};
  if (path->front() != '/') *path = base + "/" + *path;
  while (path->size() > 1 && path->back() == '/') path->pop_back();
  return std::move(path).value();
}

Status write_control(const std::string& path, const ControlInfo& info) {
  Json object = {
      {"host", info.host}, {"port", info.port}, {"secret", info.secret}, {"node", info.node}, {"pid", info.pid}};
  return replace_file(path, dump(object), 0600);
}

Result<ControlInfo> read_control(const std::string& path) {
  return parse_control(path, read_small_file(path, kMaxFile));
}

Result<ControlInfo> parse_control(const std::string& path, Result<std::string> text) {
  DL_TRY_ASSIGN(Json object, read_object(path, std::move(text)));
  ControlInfo info;
  info.host = text_of(object, "host");
  info.secret = text_of(object, "secret");
  info.node = text_of(object, "node");
  int64_t port = number_of(object, "port");
  if (info.host.empty() || info.secret.empty() || port < 1 || port > 65535)
    return Error{Errc::kInvalid, path + ": not a control file of dlrun"};
  info.port = static_cast<int>(port);
  info.pid = static_cast<pid_t>(number_of(object, "pid"));
  return info;
}

Status write_request(const std::string& path, const FileRequest& request) {
  return write_file_atomically(path, dump({{"action", request.action}, {"reason", request.reason}}), 0644);
}

Result<FileRequest> read_request(const std::string& path) {
  DL_TRY_ASSIGN(Json object, read_object(path, read_small_file(path, kMaxFile)));
  FileRequest request{text_of(object, "action"), text_of(object, "reason")};
  if (request.action.empty())
    return Error{Errc::kInvalid, path + ": the request has no 'action'; allowed: {\"action\": \"pause\"}"};
  return request;
}

}  // namespace dl::record
