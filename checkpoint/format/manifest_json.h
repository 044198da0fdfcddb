// SPDX-License-Identifier: Apache-2.0
// The JSON of a manifest's parts. The messages in which ranks report to rank 0 what they wrote use it, too.
#pragma once

#include "checkpoint/format/manifest.h"
#include "common/json/json.h"

namespace dl::ckpt {

// Parses JSON without exceptions; nullopt also if it nests deeper than a manifest ever does (this protects the stack).
std::optional<Json> parse_json(std::string_view text);

// manifest_text.h writes files and tensors.
Json blob_to_json(const BlobRecord& blob);
Json member_to_json(const MemberRecord& member);
// These check types and ranges of single values; check_manifest() checks how they fit together.
Result<FileRecord> file_from_json(const Json& json);
Result<TensorRecord> tensor_from_json(const Json& json);
Result<BlobRecord> blob_from_json(const Json& json);
Result<MemberRecord> member_from_json(const Json& json);

// Reads a member by its name; kCorrupt if it is missing, of the wrong type or out of range.
Result<int64_t> int_member(const Json& json, const char* name, int64_t min, int64_t max);
Result<std::string> string_member(const Json& json, const char* name, size_t max_length);
Result<const Json*> array_member(const Json& json, const char* name);
Result<std::map<std::string, double>> metrics_member(const Json& json, const char* name);

}  // namespace dl::ckpt
