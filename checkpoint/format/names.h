// SPDX-License-Identifier: Apache-2.0
// The names of a checkpoint directory, built and parsed in one place.
//
//   step-000000001200.0000000700c0ffee/   one committed checkpoint: train step, dot, save id (16 hex digits)
//     MANIFEST.json  r00000.h5 r00000.f1.h5 r00001.h5 …
//   .tmp-step-000000001200.…/             an attempt that is not committed, or a checkpoint being removed
//   .run-…/                               messages between the ranks of one run
//   .lease-…                              exists while a process takes or renews the lease
//   LATEST  LEASE                         small files
//
// The first eight digits of a save id are the *generation*: one more than the highest in the directory so far. The
// newest checkpoint is the one of the highest generation, whatever clocks and train steps say (if somebody goes back to
// an older train step on purpose, the new branch counts). The other eight digits are random.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace dl::ckpt {

constexpr const char* kManifestName = "MANIFEST.json";
constexpr const char* kLatestName = "LATEST";
constexpr const char* kLeaseName = "LEASE";
constexpr const char* kTemporaryPrefix = ".tmp-";
constexpr const char* kLeaseTemporaryPrefix = ".lease-";
constexpr const char* kRunPrefix = ".run-";
constexpr int64_t kMaxStep = 999999999999;  // has twelve digits
constexpr int kMaxRanks = 100000;           // rNNNNN.h5 has five digits
constexpr int kMaxFiles = 4 * kMaxRanks;    // of one checkpoint

struct CheckpointName {
  int64_t step = 0;
  uint64_t save_id = 0;
  uint32_t generation() const { return static_cast<uint32_t>(save_id >> 32); }
};

std::string format_checkpoint_name(const CheckpointName& name);
// nullopt unless the text is exactly what format_checkpoint_name() returns.
std::optional<CheckpointName> parse_checkpoint_name(std::string_view text);
std::string format_save_id(uint64_t save_id);
std::optional<uint64_t> parse_save_id(std::string_view text);

// "r00003.h5" is part 0, the file with the data that changes; "r00003.f1.h5" is part 1, which later checkpoints may
// share.
struct FileName {
  uint32_t writer = 0;
  uint32_t part = 0;
  friend bool operator<(const FileName& a, const FileName& b) {
    return a.writer != b.writer ? a.writer < b.writer : a.part < b.part;
  }
};
std::string format_file_name(uint32_t writer, uint32_t part = 0);
// nullopt unless the text is exactly what format_file_name() returns.
std::optional<FileName> parse_file_name(std::string_view text);

// "m00003.0007" is the file of the eighth member that rank 3 wrote. A rank has at most kMaxMembers.
constexpr uint32_t kMaxMembers = 10000;
struct MemberFileName {
  uint32_t writer = 0, index = 0;
};
std::string format_member_file_name(const MemberFileName& name);
std::optional<MemberFileName> parse_member_file_name(std::string_view text);

// OK if the text may name a tensor or blob (see dlckpt_tensor); otherwise kInvalid, which says what is allowed.
Status check_path(std::string_view path);
// The HDF5 path of piece `index` of a tensor ("/model/w/s0", kind 's') or of a blob ("/rng/b0", kind 'b'). Parts that
// HDF5 or we would misread are escaped: "." -> "%2E", "s0" -> "%730", "_dlckpt" in front -> "%5Fdlckpt", '%' -> "%25".
// The attribute "path" has the exact name.
std::string h5_path(std::string_view path, char kind, unsigned index);

}  // namespace dl::ckpt
