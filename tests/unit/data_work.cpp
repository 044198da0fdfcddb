// SPDX-License-Identifier: Apache-2.0
// Files while they are fetched: what counts after a kill, after another boot, and after damage.
#include "launcher/data/work.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>

#include "common/base/atomic_file.h"
#include "launcher/data/part_file.h"
#include "launcher/data/progress.h"
#include "launcher/data/threads.h"
#include "launcher/data/walk.h"
#include "launcher/data/write_all.h"

namespace dl::data {
namespace {

class DataWork : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-data-work-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    for (int i = 0; i < 3; ++i) {
      Entry entry;
      entry.path = "d/f" + std::to_string(i);
      entry.size = 10;
      entry.mtime_ns = 1'000'000'000'000'000'001 + i;
      manifest_.entries.push_back(entry);
    }
    ASSERT_TRUE(settle(&manifest_));
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(folder_)); }

  std::unique_ptr<Work> open() {
    counts_.bytes = counts_.files = counts_.resumed = 0;
    auto work = Work::open(folder_ + "/unfinished", manifest_, &counts_);
    EXPECT_TRUE(work) << (work ? "" : work.error().text);
    return *std::move(work);
  }
  // The boot in which the folder was written is another one.
  void reboot() { ASSERT_TRUE(replace_file(folder_ + "/unfinished/boot", "another\n")); }

  std::string folder_;
  Manifest manifest_;
  Counts counts_;
};

TEST_F(DataWork, what_was_whole_counts_when_it_is_opened_again) {
  ASSERT_TRUE(open()->put(1, "0123456789"));
  const auto work = open();
  EXPECT_TRUE(work->has(1));
  EXPECT_FALSE(work->has(2));
  EXPECT_EQ(counts_.resumed, 10U);
}

TEST_F(DataWork, a_part_under_the_whole_name_does_not_count) {
  open();
  // As a kill leaves it: all bytes, but not the time; and the time, but not all bytes.
  ASSERT_TRUE(replace_file(folder_ + "/unfinished/tree/d/f0", "0123456789"));
  const UniqueFd fd(::open((folder_ + "/unfinished/tree/d/f1").c_str(), O_WRONLY | O_CREAT, 0444));
  ASSERT_EQ(::write(fd.get(), "012", 3), 3);
  ASSERT_TRUE(set_time(fd.get(), kept_mtime_ns(manifest_.entries[2]), "f1"));
  const auto work = open();
  EXPECT_FALSE(work->has(1));
  EXPECT_FALSE(work->has(2));
}

TEST_F(DataWork, after_another_boot_only_what_has_its_checksum_counts) {
  {
    const auto work = open();
    for (size_t i = 1; i < 4; ++i) ASSERT_TRUE(work->put(i, "0123456789"));
    ASSERT_TRUE(work->finish(false));  // writes out the notes
  }
  const std::string path = folder_ + "/unfinished/tree/d/f0";
  const UniqueFd fd(::open(path.c_str(), O_RDONLY));
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  {
    const UniqueFd out(::open(path.c_str(), O_WRONLY));
    ASSERT_EQ(::pwrite(out.get(), "X", 1, 3), 1);
    ASSERT_TRUE(set_time(out.get(), kept_mtime_ns(manifest_.entries[1]), path));
  }
  reboot();
  const auto work = open();
  EXPECT_FALSE(work->has(1));
  EXPECT_TRUE(work->has(2));
  EXPECT_TRUE(work->has(3));
}

TEST_F(DataWork, a_file_that_arrives_with_another_size_or_checksum_is_refused) {
  manifest_.entries[1].identity = "md5:781e5e245d69b566979b86e28d23f2c7";  // of 0123456789
  const auto work = open();
  const std::string path = work->incoming() + "/x";
  ASSERT_TRUE(replace_file(path, "01234567"));
  EXPECT_EQ(work->take(1, path, true).error().code, Errc::kCorrupt);
  ASSERT_TRUE(replace_file(path, "0123456780"));
  EXPECT_EQ(work->take(1, path, true).error().code, Errc::kCorrupt);
  ASSERT_TRUE(replace_file(path, "0123456789"));
  EXPECT_TRUE(work->take(1, path, true));
  EXPECT_TRUE(work->has(1));
}

TEST_F(DataWork, nothing_that_a_helper_needs_is_left_in_a_finished_set) {
  const auto work = open();
  for (size_t i = 1; i < 4; ++i) ASSERT_TRUE(work->put(i, "0123456789"));
  ASSERT_TRUE(replace_file(work->incoming() + ".names", "d/f0\n"));
  ASSERT_TRUE(work->finish(false));
  for (const char* name : {"incoming", "incoming.names", "parts"})
    EXPECT_NE(::access((folder_ + "/unfinished/" + name).c_str(), F_OK), 0) << name;
}

TEST_F(DataWork, damage_to_a_finished_set_is_found) {
  const auto work = open();
  for (size_t i = 1; i < 4; ++i) ASSERT_TRUE(work->put(i, "0123456789"));
  ASSERT_TRUE(work->finish(false));
  EXPECT_TRUE(damaged(work->tree(), manifest_).empty());
  const std::string path = work->tree() + "/d/f1";
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  {
    const UniqueFd out(::open(path.c_str(), O_WRONLY));
    ASSERT_EQ(::pwrite(out.get(), "X", 1, 3), 1);
  }
  EXPECT_EQ(damaged(work->tree(), manifest_), std::vector<size_t>{2});
}

constexpr uint64_t kSize = 2 * kChunkBytes + 100;

std::string chunk_text(size_t chunk, uint64_t size) {
  return std::string(size, static_cast<char>('a' + chunk));
}

class DataPart : public DataWork {
 protected:
  PartFile part() {
    auto part = PartFile::open(folder_ + "/part", kSize);
    EXPECT_TRUE(part) << (part ? "" : part.error().text);
    return *std::move(part);
  }
  static void fill(PartFile* part, size_t chunk) {
    const std::string text = chunk_text(chunk, part->size_of(chunk));
    ASSERT_TRUE(part->write(part->offset_of(chunk), text));
    ASSERT_TRUE(part->finished(chunk, fast_hash(text)));
  }
  void reboot_journal() {
    const auto text = read_small_file(folder_ + "/part.journal", 4096);
    ASSERT_TRUE(text);
    std::string other = *text;
    other.replace(other.find(boot_mark()), boot_mark().size(), "another");
    ASSERT_TRUE(replace_file(folder_ + "/part.journal", other));
  }
};

TEST_F(DataPart, chunks_are_kept_in_any_order_and_the_sum_is_that_of_the_file) {
  {
    PartFile first = part();
    fill(&first, 2);
  }
  PartFile second = part();
  EXPECT_TRUE(second.has(2));
  EXPECT_FALSE(second.has(0));
  EXPECT_EQ(second.bytes_there(), 100U);
  fill(&second, 0);
  fill(&second, 1);
  ASSERT_TRUE(second.complete());
  EXPECT_EQ(second.sum(), *fast_sum_of(second.fd(), "part"));
}

TEST_F(DataPart, after_another_boot_a_chunk_that_is_not_on_the_disk_is_fetched_again) {
  {
    PartFile first = part();
    fill(&first, 0);
    fill(&first, 1);
    ASSERT_TRUE(first.write(kChunkBytes + 5, "damage"));
  }
  reboot_journal();
  const PartFile second = part();
  EXPECT_TRUE(second.has(0));
  EXPECT_FALSE(second.has(1));
}

TEST_F(DataPart, a_torn_or_foreign_journal_is_not_believed) {
  {
    PartFile first = part();
    fill(&first, 0);
  }
  const auto text = *read_small_file(folder_ + "/part.journal", 4096);
  ASSERT_TRUE(replace_file(folder_ + "/part.journal", text + "1 12"));
  EXPECT_FALSE(part().has(1));
  EXPECT_TRUE(part().has(0));
  ASSERT_TRUE(replace_file(folder_ + "/part.journal", text + "99 1\nx\n-1 2\n1 zz\n"));
  EXPECT_EQ(part().bytes_there(), kChunkBytes);
  ASSERT_TRUE(replace_file(folder_ + "/part.journal", ""));
  EXPECT_EQ(part().bytes_there(), 0U);
}

// A user may be at the limit of his processes.
TEST_F(DataWork, is_done_where_no_thread_can_be_started) {
  const auto work = open();
  for (size_t i = 1; i < 4; ++i) ASSERT_TRUE(work->put(i, "0123456789"));
  Manifest many = manifest_;
  for (int i = 0; i < 3000; ++i) many.entries.push_back(manifest_.entries[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit one{1, 1};
    // root is bound by no such limit.
    if ((::geteuid() == 0 && ::setresuid(54321, 54321, 54321) != 0) || ::setrlimit(RLIMIT_NPROC, &one) != 0) ::_exit(2);
    Progress progress("");
    std::atomic<int> called{0};
    on_threads(8, [&] { ++called; });
    const size_t missing = damaged("/nowhere", many).size();
    ::_exit(called >= 1 && missing == many.entries.size() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(DataWork, a_walk_follows_links_and_refuses_what_is_no_file) {
  const std::string root = folder_ + "/tree";
  ASSERT_TRUE(make_directories(root + "/a/empty"));
  ASSERT_TRUE(replace_file(root + "/a/f", "x"));
  ASSERT_EQ(::symlink("a/f", (root + "/link").c_str()), 0);
  ASSERT_EQ(::symlink("a", (root + "/folder").c_str()), 0);
  const auto tree = walk(root, Odd::kRefuse);
  ASSERT_TRUE(tree) << tree.error().text;
  EXPECT_EQ(tree->manifest.files(), 3U);
  EXPECT_EQ(tree->manifest.entries.size(), 7U);
  const auto refused = [&](const std::string& name, const char* what) {
    const auto walked = walk(root, Odd::kRefuse);
    EXPECT_FALSE(walked) << name;
    if (!walked) {
      EXPECT_NE(walked.error().text.find(what), std::string::npos) << walked.error().text;
    }
    // Results are stored without it.
    const auto left = walk(root, Odd::kLeave);
    EXPECT_TRUE(left) << name;
    EXPECT_TRUE(remove_tree(root + "/" + name));
  };
  ASSERT_EQ(::symlink("nothing", (root + "/dangling").c_str()), 0);
  refused("dangling", "leads to nothing");
  ASSERT_EQ(::symlink("self", (root + "/self").c_str()), 0);
  refused("self", "in a circle");
  ASSERT_EQ(::symlink("..", (root + "/a/up").c_str()), 0);
  refused("a/up", "in a circle");
  ASSERT_EQ(::mkfifo((root + "/fifo").c_str(), 0600), 0);
  refused("fifo", "is a FIFO");
  ASSERT_TRUE(replace_file(root + "/new\nline", "x"));
  refused("new\nline", "control character");
  EXPECT_TRUE(walk(root, Odd::kRefuse));
}

}  // namespace
}  // namespace dl::data
