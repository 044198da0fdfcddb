// SPDX-License-Identifier: Apache-2.0
// Checks of container images as files. spank_dl.so makes them at submission, and dlrun in the job.
#pragma once

#include <string>

#include "common/base/result.h"

namespace dl {

enum class ImageForm { kDirectory, kSquashfs, kSif };

// --dl-image=PATH or PATH@sha256:DIGEST, 64 hexadecimal digits. Pure.
struct ImageName {
  std::string path;
  std::string digest;  // in lower case; empty: the name has no digest
};
ImageName split_image(const std::string& text);

// "a directory", "a SquashFS image", "a SIF image"
const char* image_form_name(ImageForm form);

// Which form the image at `path` has: a directory that holds a system (it has a usr or a bin), or a file whose name
// ends in .sqfs, .squashfs, .sqsh or .sif. One or two calls of stat(2), as the caller's user. kNotFound, kDenied or
// kInvalid with "'PATH' ...; allowed: ...".
Result<ImageForm> image_form(const std::string& path);

}  // namespace dl
