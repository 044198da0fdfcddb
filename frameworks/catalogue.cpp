// SPDX-License-Identifier: Apache-2.0
// Reads the folders and chooses an entry; catalogue_entry.cpp has the form of an entry.
#include "frameworks/catalogue.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "common/base/nearest.h"
#include "common/base/parse.h"
#include "common/base/unique_fd.h"

namespace dl {
namespace {

constexpr size_t kMaxFiles = 256;
constexpr size_t kMaxFileBytes = 256UL * 1024;
constexpr const char* kSuffix = ".toml";

// Reads a regular file whole. Without O_NONBLOCK a FIFO in its place would make slurmctld hang.
Result<std::string> read_entry_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return errno_error(path, errno);
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return errno_error(path, errno);
  if (!S_ISREG(status.st_mode))
    return Error{Errc::kInvalid, path + ": not a regular file; allowed: a file NAME.toml, not a folder or a device"};
  std::string text;
  char buffer[8192];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error(path, errno);
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMaxFileBytes) {
      return Error{Errc::kInvalid, path + ": longer than an entry of the catalogue may be; allowed: up to " +
                                       format_bytes(kMaxFileBytes)};
    }
  }
}

bool is_entry_name(const std::string& name) {
  const std::string suffix = kSuffix;
  return name.size() > suffix.size() && name[0] != '.' &&
         name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

// Names of the entry files in the folder, sorted; none if it does not exist.
Result<std::vector<std::string>> list_entry_files(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), &::closedir);
  if (!dir) {
    if (errno == ENOENT) return names;
    return errno_error(folder, errno);
  }
  for (;;) {
    errno = 0;
    const struct dirent* item = ::readdir(dir.get());  // NOLINT(concurrency-mt-unsafe): own DIR
    if (item == nullptr) {
      if (errno != 0) return errno_error(folder, errno);
      break;
    }
    if (!is_entry_name(item->d_name)) continue;
    names.emplace_back(item->d_name);
    if (names.size() > kMaxFiles) {
      return Error{Errc::kInvalid, folder + ": has more than " + std::to_string(kMaxFiles) +
                                       " entries; allowed: up to that many files NAME.toml"};
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<FrameworkEntry> read_entry(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  DL_TRY_ASSIGN(const std::string text, read_entry_file(path));
  return Catalogue::parse_entry(text, path);
}

}  // namespace

Result<Catalogue> Catalogue::load(const std::vector<std::string>& folders) {
  Catalogue catalogue;
  for (const std::string& folder : folders) {
    DL_TRY_ASSIGN(const std::vector<std::string> names, list_entry_files(folder));
    for (const std::string& name : names) {
      DL_TRY_ASSIGN(FrameworkEntry entry, read_entry(folder, name));
      catalogue.entries_[entry.name] = std::move(entry);
    }
  }
  return catalogue;
}

Catalogue Catalogue::load_sound(const std::vector<std::string>& folders, std::vector<std::string>* faults) {
  Catalogue catalogue;
  for (const std::string& folder : folders) {
    auto names = list_entry_files(folder);
    if (!names) {
      faults->push_back(names.error().text);
      continue;
    }
    for (const std::string& name : *names) {
      const std::string framework = name.substr(0, name.size() - std::string_view(kSuffix).size());
      if (auto entry = read_entry(folder, name)) {
        catalogue.entries_[framework] = *std::move(entry);
      } else {
        faults->push_back(entry.error().text);
        catalogue.entries_.erase(framework);
      }
    }
  }
  return catalogue;
}

const FrameworkEntry* Catalogue::find(const std::string& name) const {
  auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

Result<Catalogue::Choice> Catalogue::choose(const FrameworkRef& ref) const {
  const FrameworkEntry* entry = find(ref.name);
  if (entry == nullptr) {
    std::string known;
    std::vector<std::string> names;
    for (const auto& item : entries_) {
      known += (known.empty() ? "" : ", ") + item.first;
      names.push_back(item.first);
    }
    if (known.empty()) known = "none, since the catalogue is empty";
    return Error{Errc::kNotFound, "'" + printable(ref.name) + "' is not a known framework; known: " + known +
                                      did_you_mean(ref.name, names)};
  }
  Choice choice{entry, nullptr, ref.version};
  if (entry->versions.empty()) {
    if (ref.version.empty()) return choice;
    return Error{Errc::kNotFound, "'" + printable(ref.version) + "' is no version that can be chosen: the entry of " +
                                      entry->name + " lists none, and a job gets the version that its script finds; " +
                                      "allowed: " + entry->name};
  }
  const std::string& wanted = ref.version.empty() ? entry->default_version : ref.version;
  std::string known;
  for (const FrameworkVersion& version : entry->versions) {
    if (version.version == wanted) {
      choice.version = &version;
      choice.version_text = version.version;
      return choice;
    }
    if (!version.hidden) known += (known.empty() ? "" : ", ") + version.version;
  }
  return Error{Errc::kNotFound, entry->name + " has no version '" + printable(ref.version) + "'; known: " + known};
}

}  // namespace dl
