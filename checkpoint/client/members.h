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

// A member's file, opened at the beginning of the save. Until the save is over the program may put another file in its
// place, but must not write to it.
struct OpenMember {
  std::string name;
  int rank = -1;  // the rank for the manifest
  File file;
  Io::Info info;
};
// Opens the members that this rank has to write. kNotFound, kInvalid (not a regular file), kDenied or kIo, with the
// member's name in front.
Result<std::vector<OpenMember>> open_members(Io& io, const Registry& registry, int rank);

// Copies the members into `directory` and fsyncs them. kIo if a member was written to since it was opened. On error the
// copies are removed again.
Result<std::vector<MemberRecord>> write_members(Io& io, const std::string& directory, int rank,
                                                std::vector<OpenMember>* members);

// A member that was copied from a checkpoint and verified: a temporary file beside the registered path.
struct StagedMember {
  std::string temporary, path;
};
// Copies the members that this rank registered. kConflict if the checkpoint lacks one (but a rank beyond those that
// saved may have no member of its own). On error no temporary file is left.
Result<std::vector<StagedMember>> stage_members(Io& io, const std::string& checkpoint, const Manifest& manifest,
                                                const Registry& registry, int rank);
// Renames each staged file to its path. After an error the remaining files stay as they are.
Status install_members(Io& io, const std::vector<StagedMember>& staged);
void drop_members(Io& io, const std::vector<StagedMember>& staged);

}  // namespace dl::ckpt
