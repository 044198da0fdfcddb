// SPDX-License-Identifier: Apache-2.0
// Members: files that the program writes itself. A save copies them into the checkpoint unchanged, and a restore puts
// them back.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/client/registry.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/store/file.h"

namespace dl::ckpt {

// A member's file, opened at the beginning of the save. Until the save is over the program may replace the file by
// another one, but must not write to it.
struct OpenMember {
  std::string name;
  int rank = -1;  // for the manifest
  File file;
  Io::Info info;
};
// Opens the members that this rank has to write. kNotFound, kDenied, kIo with the member's name in front.
Result<std::vector<OpenMember>> open_members(Io& io, const Registry& registry, int rank);

// Copies them into `directory`, fsynced. kIo if one was written to since it was opened. On error the copies are removed
// again.
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
// Renames each staged file to its path. After an error the rest stay as they are.
Status install_members(Io& io, const std::vector<StagedMember>& staged);
void drop_members(Io& io, const std::vector<StagedMember>& staged);

}  // namespace dl::ckpt
