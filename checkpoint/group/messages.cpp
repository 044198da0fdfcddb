// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/group/messages.h"

#include <algorithm>
#include <map>

#include "checkpoint/format/manifest_json.h"
#include "checkpoint/format/manifest_text.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

std::string to_text(const Json& json) {
  return json.dump_sorted();
}

}  // namespace

std::string say_ok(const std::string& text) {
  return "ok " + text;
}

std::string say_error(const Error& error) {
  return to_text(Json{{"code", static_cast<int>(error.code)}, {"text", error.text}, {"errno", error.sys_errno}});
}

Result<std::string> hear(const std::string& message) {
  if (message.compare(0, 3, "ok ") == 0) return message.substr(3);
  const Error unreadable{Errc::kInternal,
                         "a message of another rank cannot be read; all ranks need the same libdlckpt"};
  const auto json = parse_json(message);
  if (!json) return unreadable;
  Error error;
  DL_TRY_ASSIGN(const int64_t code, int_member(*json, "code", 0, static_cast<int>(Errc::kInternal)));
  error.code = static_cast<Errc>(code);
  DL_TRY_ASSIGN(error.text, string_member(*json, "text", 65536));
  if (error.text.empty()) return unreadable;
  DL_TRY_ASSIGN(const int64_t number, int_member(*json, "errno", 0, 65536));
  error.sys_errno = static_cast<int>(number);
  return error;
}

Result<std::vector<std::string>> hear_all(const std::vector<std::string>& messages) {
  std::vector<std::string> texts;
  texts.reserve(messages.size());
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    auto text = hear(messages[rank]);
    if (!text) {
      if (messages.size() == 1) return std::move(text).error();
      return std::move(text).error().with_context("rank " + std::to_string(rank));
    }
    texts.push_back(*std::move(text));
  }
  return texts;
}

std::string format_part(const Part& part) {
  std::string text = "{\"files\":[";
  for (const FileRecord& file : part.files) {
    if (text.back() != '[') text += ',';
    append_json(file, &text);
  }
  text += "],\"tensors\":[";
  for (const TensorRecord& tensor : part.tensors) {
    if (text.back() != '[') text += ',';
    append_json(tensor, &text);
  }
  Json blobs = Json::array(), members = Json::array();
  for (const BlobRecord& blob : part.blobs) blobs.push_back(blob_to_json(blob));
  for (const MemberRecord& member : part.members) members.push_back(member_to_json(member));
  const std::string rest = to_text(Json{{"blobs", std::move(blobs)},
                                        {"members", std::move(members)},
                                        {"fingerprint", part.fingerprint},
                                        {"tensor_count", part.tensor_count}});
  return text + "]," + rest.substr(1);
}

Result<Part> parse_part(const std::string& text) {
  const auto json = parse_json(text);
  if (!json || !json->is_object())
    return Error{Errc::kInternal,
                 "its message about its part of the save cannot be read; all ranks need the same libdlckpt"};
  Part part;
  DL_TRY_ASSIGN(const Json* files, array_member(*json, "files"));
  for (const Json& item : *files) {
    DL_TRY_ASSIGN(FileRecord file, file_from_json(item));
    part.files.push_back(std::move(file));
  }
  DL_TRY_ASSIGN(const Json* tensors, array_member(*json, "tensors"));
  for (const Json& item : *tensors) {
    DL_TRY_ASSIGN(TensorRecord tensor, tensor_from_json(item));
    part.tensors.push_back(std::move(tensor));
  }
  DL_TRY_ASSIGN(const Json* blobs, array_member(*json, "blobs"));
  for (const Json& item : *blobs) {
    DL_TRY_ASSIGN(BlobRecord blob, blob_from_json(item));
    part.blobs.push_back(std::move(blob));
  }
  DL_TRY_ASSIGN(const Json* members, array_member(*json, "members"));
  for (const Json& item : *members) {
    DL_TRY_ASSIGN(MemberRecord member, member_from_json(item));
    part.members.push_back(std::move(member));
  }
  DL_TRY_ASSIGN(part.fingerprint, string_member(*json, "fingerprint", 64));
  DL_TRY_ASSIGN(const int64_t count, int_member(*json, "tensor_count", 0, INT64_MAX));
  part.tensor_count = static_cast<size_t>(count);
  return part;
}

Status merge_parts(std::vector<Part> parts, Manifest* manifest) {
  std::map<std::string, TensorRecord> tensors;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    Part& part = parts[rank];
    const std::string who = "rank " + std::to_string(rank);
    const size_t first_file = manifest->files.size();
    if (part.fingerprint != parts[0].fingerprint)
      return Error{Errc::kInvalid, who + " registered other tensors than rank 0 (" + std::to_string(part.tensor_count) +
                                       " against " + std::to_string(parts[0].tensor_count) +
                                       "): names, dtypes, shapes and DLCKPT_REPLICATED must be the same on all ranks"};
    for (TensorRecord& tensor : part.tensors) {
      for (ShardRecord& shard : tensor.shards) shard.file += first_file;
      auto [at, added] = tensors.try_emplace(tensor.path, TensorRecord{});
      if (added) {
        at->second = std::move(tensor);
        continue;
      }
      auto& shards = at->second.shards;
      std::move(tensor.shards.begin(), tensor.shards.end(), std::back_inserter(shards));
    }
    for (MemberRecord& member : part.members) {
      // A rank may only report members of its own.
      const auto file = parse_member_file_name(member.file);
      if (!file || file->writer != rank || (member.rank != -1 && member.rank != static_cast<int>(rank)))
        return Error{Errc::kInternal, who + " named the file of a member as another rank's"};
      manifest->members.push_back(std::move(member));
    }
    for (BlobRecord& blob : part.blobs) {
      blob.file += first_file;
      manifest->blobs.push_back(std::move(blob));
    }
    for (FileRecord& file : part.files) {
      file.writer = static_cast<uint32_t>(rank);
      manifest->files.push_back(std::move(file));
    }
  }
  std::sort(manifest->members.begin(), manifest->members.end(), [](const MemberRecord& a, const MemberRecord& b) {
    return a.name != b.name ? a.name < b.name : a.rank < b.rank;
  });
  for (auto& [path, tensor] : tensors) manifest->tensors.push_back(std::move(tensor));
  // Which rank packs which tensors follows from what all have registered, so ranks do not send the names; this number
  // shows whether all tensors are there.
  if (!parts.empty() && manifest->schema() >= 3 && manifest->tensor_count() != parts[0].tensor_count)
    return Error{Errc::kInternal, "the ranks packed " + std::to_string(manifest->tensor_count()) + " tensors of " +
                                      std::to_string(parts[0].tensor_count)};
  std::sort(manifest->blobs.begin(), manifest->blobs.end(), [](const BlobRecord& a, const BlobRecord& b) {
    return a.path != b.path ? a.path < b.path : a.rank < b.rank;
  });
  auto checked = check_manifest(*manifest);
  if (!checked && checked.error().code == Errc::kCorrupt) checked.error().code = Errc::kInternal;
  return checked;
}

}  // namespace dl::ckpt
