// SPDX-License-Identifier: Apache-2.0
// The JSON of a manifest's parts, also used in the messages by which ranks hand rank 0 what they wrote.
#pragma once

#include "checkpoint/format/manifest.h"
#include "common/json/json.h"

namespace dl::ckpt {

// Parses JSON without exceptions; nullopt also if it nests deeper than a manifest ever does (a guard of the stack).
std::optional<Json> parse_json(std::string_view text);

// Files and tensors are written by manifest_text.h.
Json blob_to_json(const BlobRecord& blob);
Json member_to_json(const MemberRecord& member);
// Types and ranges of single values are checked here; how they fit together by check_manifest().
Result<FileRecord> file_from_json(const Json& json);
Result<TensorRecord> tensor_from_json(const Json& json);
Result<BlobRecord> blob_from_json(const Json& json);
Result<MemberRecord> member_from_json(const Json& json);

// Members by name; kCorrupt if missing, of the wrong type or out of range.
Result<int64_t> int_member(const Json& json, const char* name, int64_t min, int64_t max);
Result<std::string> string_member(const Json& json, const char* name, size_t max_length);
Result<const Json*> array_member(const Json& json, const char* name);
Result<std::map<std::string, double>> metrics_member(const Json& json, const char* name);

}  // namespace dl::ckpt
