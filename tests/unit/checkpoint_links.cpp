// SPDX-License-Identifier: Apache-2.0
// Symbolic links that people put in the place of a checkpoint, or of a file of one: what they lead to is never written
// over nor removed.
#include <filesystem>

#include "checkpoint/engine/slot.h"
#include "checkpoint/store/file.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

namespace fs = std::filesystem;

void retire_what_is_linked(bool whole, bool recycle) {
  const TempDir dir;
  const std::string mine = dir.path() + "/mine";
  Settings settings = settings_for(dir.path() + "/c");
  settings.keep = 1;
  settings.recycle = recycle;
  auto context = *open_context(settings);
  PatternState state;
  std::string kept;
  for (int64_t step = 1; step <= 4; ++step) {
    state.fill(step);
    ASSERT_TRUE(state.enroll(*context));
    ASSERT_TRUE(context->save(step, DLCKPT_SYNC));
    if (step > 1) continue;
    const std::string checkpoint = newest_path(settings.dir);
    if (whole) {
      fs::rename(checkpoint, mine);
      fs::create_directory_symlink(mine, checkpoint);
    } else {
      fs::create_directory(mine);
      fs::rename(checkpoint + "/r00000.h5", mine + "/r00000.h5");
      fs::create_symlink(mine + "/r00000.h5", checkpoint + "/r00000.h5");
    }
    kept = read_file(mine + "/r00000.h5");
    ASSERT_FALSE(kept.empty());
  }
  context.reset();  // it removes what is retired in the background
  ASSERT_TRUE(fs::exists(mine + "/r00000.h5"));
  EXPECT_TRUE(read_file(mine + "/r00000.h5") == kept);
  EXPECT_EQ(fs::exists(mine + "/MANIFEST.json"), whole);
  const auto names = *scan_checkpoints(posix_io(), settings.dir);
  ASSERT_EQ(names.size(), 1U);
  EXPECT_TRUE(verify_checkpoint(posix_io(), settings.dir, names.front()));
}

TEST(CheckpointLinks, ARetiredCheckpointThatIsALinkLosesTheLinkAlone) {
  retire_what_is_linked(true, true);
  retire_what_is_linked(true, false);
}

TEST(CheckpointLinks, ALinkedFileOfARetiredCheckpointIsNotWrittenOver) {
  retire_what_is_linked(false, true);
  retire_what_is_linked(false, false);
}

TEST(CheckpointLinks, RemovingATreeFollowsNone) {
  const TempDir dir;
  const std::string mine = dir.path() + "/mine", link = dir.path() + "/link", tree = dir.path() + "/tree";
  fs::create_directories(mine + "/below");
  fs::create_directories(tree + "/below");
  ASSERT_TRUE(write_new_file(posix_io(), mine + "/below/file", "mine", false));
  fs::create_directory_symlink(mine, link);
  fs::create_directory_symlink(mine, tree + "/a");
  fs::create_directory_symlink(mine, tree + "/below/b");
  fs::create_symlink(dir.path() + "/none", tree + "/dangling");
  ASSERT_TRUE(remove_tree(posix_io(), link));
  ASSERT_TRUE(remove_tree(posix_io(), tree));
  ASSERT_TRUE(remove_tree(posix_io(), dir.path() + "/none"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(link)) || fs::exists(tree));
  EXPECT_EQ(read_file(mine + "/below/file"), "mine");
}

}  // namespace
}  // namespace dl::ckpt::test
