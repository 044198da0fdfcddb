// SPDX-License-Identifier: Apache-2.0
// The file by which dlrun tells dl-data which sources a job needs:
//
//   {"version":1,"sources":[{"from":"s3:bucket/train","to":"train","cache":"node","checksum":""}]}
//
// It holds names of remotes, never a credential.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/data_request.h"

namespace dl::record {

// The text, with a newline at its end.
std::string format_sources(const std::vector<data::Source>& sources);
// The sources of such a text, checked as check_sources() does. kInvalid "NAME: what is wrong"; kUnsupported: a later
// version. Unknown members are ignored.
Result<std::vector<data::Source>> parse_sources(const std::string& text, const std::string& name);

// Writes the file, mode 0600; errors of the file system.
Status write_sources(const std::string& path, const std::vector<data::Source>& sources);
// Reads it: at most 1 MiB. Errors of the file system, or those of parse_sources().
Result<std::vector<data::Source>> read_sources(const std::string& path);

// Makes the sources that are paths absolute: from `base` on, and "~/" by `home`. Pure.
void make_absolute(const std::string& base, const std::string& home, std::vector<data::Source>* sources);
// Where `dlctl data prefetch` keeps what it knows of these sources in the user's shared cache, without the end of the
// file's name: ".json", and ".done" once all is there. Pure.
std::string prefetched(const std::string& cache, const std::vector<data::Source>& sources);

}  // namespace dl::record
