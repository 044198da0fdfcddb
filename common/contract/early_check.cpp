// SPDX-License-Identifier: Apache-2.0
#include "common/contract/early_check.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/contract/data_request.h"

namespace dl::data {
namespace {

constexpr size_t kMostConfiguration = 4 << 20;
constexpr std::string_view kEncrypted = "RCLONE_ENCRYPT_";

// Where rclone looks for the configuration, but for the folder of rclone itself; empty if there is none.
std::string configuration_path() {
  const std::string chosen = environment_value("RCLONE_CONFIG");
  if (!chosen.empty()) return chosen;
  const std::string home = environment_value("HOME"), xdg = environment_value("XDG_CONFIG_HOME");
  std::vector<std::string> places;
  if (!xdg.empty()) places.push_back(xdg + "/rclone/rclone.conf");
  if (!home.empty()) places.insert(places.end(), {home + "/.config/rclone/rclone.conf", home + "/.rclone.conf"});
  const auto there = std::find_if(places.begin(), places.end(),
                                  [](const std::string& path) { return ::access(path.c_str(), F_OK) == 0; });
  return there == places.end() ? "" : *there;
}

// What can be looked at of an absolute path before the job has a number: "/data/out-%j/x" gives "/data/", since each
// job makes a new folder there. "/data/%x/x" gives "", since the folder of that name may exist, with other permissions.
std::string known_part(std::string path) {
  for (size_t at = path.find("%u"); at != std::string::npos; at = path.find("%u", at))
    path.replace(at, 2, environment_value("USER"));
  const size_t pattern = path.find('%');
  if (pattern == std::string::npos) return path;
  const size_t end = std::min(path.find('/', pattern), path.size()), begin = path.rfind('/', pattern);
  const std::string part = path.substr(begin, end - begin);
  const bool is_new = part.find("%j") != std::string::npos || part.find("%A") != std::string::npos;
  return is_new ? path.substr(0, begin + 1) : "";
}

}  // namespace

std::optional<std::vector<std::string>> remotes_of(std::string_view configuration) {
  std::vector<std::string> names;
  for (const std::string& line : split(configuration, '\n')) {
    const std::string_view text = trim(line);
    if (text.substr(0, kEncrypted.size()) == kEncrypted) return std::nullopt;
    if (text.size() > 2 && text.front() == '[' && text.back() == ']')
      names.emplace_back(trim(text.substr(1, text.size() - 2)));
  }
  return names;
}

std::string remote_variable(std::string_view remote) {
  std::string variable = "RCLONE_CONFIG_" + std::string(remote) + "_TYPE";
  for (char& c : variable)
    c = c == '-' || c == ' ' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

Status check_remote_here(const std::string& place) {
  const std::string name = place.substr(0, place.find(':'));
  if (!environment_value(remote_variable(name).c_str()).empty()) return {};
  const std::string path = configuration_path();
  if (path.empty() && environment_value("HOME").empty()) return {};  // rclone finds the home directory by itself
  struct stat status {};
  if (!path.empty() && ::stat(path.c_str(), &status) == 0) {
    if (S_ISREG(status.st_mode) && (status.st_mode & 0077) != 0)
      return Error{Errc::kDenied, fmt::format("{} can be read by others, with the credentials in it; chmod 600 it",
                                              printable(path, 400))};
    const auto text = read_small_file(path, kMostConfiguration);
    if (!text) return {};
    const auto names = remotes_of(*text);
    if (!names || std::find(names->begin(), names->end(), name) != names->end()) return {};
  }
  return Error{Errc::kNotFound,
               fmt::format("'{}' names a remote that is not in your rclone configuration{}; make it with rclone "
                           "config, or set RCLONE_CONFIG before you submit",
                           shown_place(place), path.empty() ? "" : ", " + printable(path, 400))};
}

Status check_can_store(const std::string& path) {
  if (path.empty() || path.front() != '/') return {};
  std::string there = known_part(path);
  if (there.empty()) return {};
  const auto without_slashes = [](std::string* text) {
    while (text->size() > 1 && text->back() == '/') text->pop_back();
  };
  without_slashes(&there);
  struct stat status {};
  while (::stat(there.c_str(), &status) != 0) {
    if (there == "/" || (errno != ENOENT && errno != ENOTDIR && errno != EACCES)) return {};
    if (errno == EACCES) return errno_error(fmt::format("'{}'", printable(path, 400)), EACCES);
    there.erase(there.rfind('/') + 1);
    without_slashes(&there);
  }
  if (!S_ISDIR(status.st_mode))
    return Error{Errc::kExists, fmt::format("'{}' cannot be made: {} is not a folder; allowed: a place in a folder "
                                            "that you may write to",
                                            printable(path, 400), printable(there, 400))};
  if (::access(there.c_str(), W_OK | X_OK) == 0 || (errno != EACCES && errno != EROFS)) return {};
  const int error = errno;
  return Error{Errc::kDenied,
               fmt::format("'{}' cannot be made: you may not write to {}; allowed: a place in a folder "
                           "that you may write to",
                           printable(path, 400), printable(there, 400)),
               error};
}

}  // namespace dl::data
