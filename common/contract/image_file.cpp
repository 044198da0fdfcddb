// SPDX-License-Identifier: Apache-2.0
#include "common/contract/image_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <string_view>

#include "common/base/parse.h"

namespace dl {
namespace {

constexpr const char* kAllowed =
    "a directory that holds a system, or a file *.sqfs, *.squashfs, *.sqsh or *.sif; an image of a registry is fetched "
    "before (ch-image pull, apptainer pull)";

struct Suffix {
  std::string_view text;
  ImageForm form;
};
constexpr Suffix kSuffixes[] = {{".sqfs", ImageForm::kSquashfs},
                                {".squashfs", ImageForm::kSquashfs},
                                {".sqsh", ImageForm::kSquashfs},
                                {".sif", ImageForm::kSif}};

bool exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

Error refuse(const std::string& path, const std::string& why) {
  return Error{Errc::kInvalid, "'" + printable(path, 400) + "' " + why + "; allowed: " + kAllowed};
}

}  // namespace

ImageName split_image(const std::string& text) {
  constexpr std::string_view kMark = "@sha256:";
  constexpr size_t kDigits = 64;
  const size_t at = text.rfind(kMark);
  if (at == std::string::npos || text.size() != at + kMark.size() + kDigits) return {text, ""};
  std::string digest = text.substr(at + kMark.size());
  for (char& c : digest) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) return {text, ""};
  }
  return {text.substr(0, at), digest};
}

const char* image_form_name(ImageForm form) {
  switch (form) {
    case ImageForm::kDirectory:
      return "a directory";
    case ImageForm::kSquashfs:
      return "a SquashFS image";
    case ImageForm::kSif:
      return "a SIF image";
  }
  return "";
}

Result<ImageForm> image_form(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const int failure = errno;
    Error error = errno_error("'" + printable(path, 400) + "'", failure);
    error.text += std::string("; allowed: ") + kAllowed;
    return error;
  }
  if (S_ISDIR(info.st_mode)) {
    if (exists(path + "/usr") || exists(path + "/bin")) return ImageForm::kDirectory;
    return refuse(path, "is a directory without usr or bin, so no image");
  }
  if (S_ISREG(info.st_mode))
    for (const Suffix& suffix : kSuffixes)
      if (path.size() > suffix.text.size() &&
          path.compare(path.size() - suffix.text.size(), path.npos, suffix.text) == 0)
        return suffix.form;
  return refuse(path, "is no image by its name");
}

}  // namespace dl
