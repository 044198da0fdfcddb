// SPDX-License-Identifier: Apache-2.0
// File mode: files that the program writes itself, copied into checkpoints as they are, and put back by a restore.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/client/registry.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/store/file.h"

namespace dl::ckpt {

// A member's file, open since the beginning of the save: the program may put another file in its place meanwhile, but
// not write to this one.
struct OpenMember {
  std::string name;
  int rank = -1;  // for the manifest
  File file;
  Io::Info info;
};
// Those that this rank has to write. kNotFound, kDenied, kIo with the member's name in front.
Result<std::vector<OpenMember>> open_members(Io& io, const Registry& registry, int rank);

// Copies them into `directory`, fsynced. kIo if one was written to since it was opened. On error what was written is
// removed.
Result<std::vector<MemberRecord>> write_members(Io& io, const std::string& directory, int rank,
                                                std::vector<OpenMember>* members);

// Copies what this rank registered, checked, from a checkpoint to temporary files beside the registered paths.
struct StagedMember {
  std::string temporary, path;
};
// kConflict if the checkpoint does not have one (but a rank beyond those that saved finds none of its own). On error
// nothing is left.
Result<std::vector<StagedMember>> stage_members(Io& io, const std::string& checkpoint, const Manifest& manifest,
                                                const Registry& registry, int rank);
// Puts them into their places, each at once; the others stay as they are after an error.
Status install_members(Io& io, const std::vector<StagedMember>& staged);
void drop_members(Io& io, const std::vector<StagedMember>& staged);

}  // namespace dl::ckpt
