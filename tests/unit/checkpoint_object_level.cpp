// SPDX-License-Identifier: Apache-2.0
// The seam for object stores (levels/object_level.h) over a store that behaves as S3 does: objects appear whole, in no
// order, and there is no rename. What comes back is what was saved, and nothing damaged passes.
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "checkpoint/levels/object_level.h"
#include "checkpoint/store/retire.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

class MemoryStore : public ObjectLevel {
 public:
  MemoryStore() { pause_ms = 1; }
  Status put(const std::string& key, uint64_t size, const NextPiece& next) override {
    std::string object;
    for (;;) {
      DL_TRY_ASSIGN(const std::string_view piece, next());
      if (piece.empty()) break;
      object += piece;
    }
    EXPECT_EQ(object.size(), size) << key;
    if (puts_left-- == 0) return Error{Errc::kIo, "the store is gone"};
    if (busy_puts > 0) return --busy_puts, Error{Errc::kBusy, "503"};
    order.push_back(key);
    objects[key] = std::move(object);
    return {};
  }
  Status read(const std::string& key, uint64_t at, uint64_t size, const TakePiece& take) override {
    const auto found = objects.find(key);
    if (found == objects.end()) return Error{Errc::kNotFound, key};
    if (at + size > found->second.size()) return Error{Errc::kCorrupt, key + " ends before"};
    const std::string_view wanted = std::string_view(found->second).substr(at, size);
    if (cuts > 0 && key.find(kManifestName) == std::string::npos) {
      --cuts;
      DL_TRY(take(wanted.substr(0, size / 2)));
      return Error{Errc::kBusy, "the connection was cut"};
    }
    return take(wanted);
  }
  Result<std::vector<Object>> list(const std::string& folder) override {
    std::vector<Object> found;
    for (const auto& [key, object] : objects)
      if (folder.empty() || key.compare(0, folder.size() + 1, folder + "/") == 0) found.push_back({key, object.size()});
    return found;
  }
  Status erase(const std::string& key) override {
    objects.erase(key);
    return {};
  }
  Status erase_folder(const std::string& folder) override {
    for (auto it = objects.begin(); it != objects.end();)
      it = it->first.compare(0, folder.size() + 1, folder + "/") == 0 ? objects.erase(it) : std::next(it);
    return {};
  }

  std::map<std::string, std::string> objects;
  std::vector<std::string> order;
  int puts_left = -1;  // before it fails; negative: never
  int busy_puts = 0;   // that fail first, with what may pass
  int cuts = 0;        // readings that end in the middle first
};

// Two ranks, with a file of the program's own.
void save(const std::string& dir, int64_t step) {
  const std::string member = dir + ".member";
  std::ofstream(member) << "what the program wrote for " << step;
  run_ranks(2, [&](int rank) {
    auto context = open_context(settings_for(dir, rank, 2));
    ASSERT_TRUE(context) << context.error().text;
    PatternState state;
    state.fill(step);
    ASSERT_TRUE(state.enroll_sharded(**context, rank, 2));
    if (rank == 0) {
      ASSERT_TRUE((*context)->registry().add_member("log", member.c_str(), false));
    }
    const Status saved = (*context)->save(step, DLCKPT_SYNC);
    ASSERT_TRUE(saved) << saved.error().text;
  });
  std::filesystem::remove(member);
}

CheckpointName newest(const std::string& dir) {
  return scan_checkpoints(posix_io(), dir)->front();
}

TEST(CheckpointObjectLevel, ACheckpointComesBackAsItWas) {
  const TempDir from, to;
  save(from.path(), 5);
  MemoryStore store;
  const CheckpointName name = newest(from.path());
  const auto sent = send_checkpoint(posix_io(), from.path(), name, store);
  ASSERT_TRUE(sent) << sent.error().text;
  EXPECT_EQ(store.order.back(), format_checkpoint_name(name) + "/" + kManifestName) << "the commit comes last";
  const auto listed = list_checkpoints(store);
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().save_id, name.save_id);

  const Status fetched = fetch_checkpoint(store, name, posix_io(), to.path());
  ASSERT_TRUE(fetched) << fetched.error().text;
  EXPECT_TRUE(verify_checkpoint(posix_io(), to.path(), name));
  auto context = open_context(settings_for(to.path()));
  ASSERT_TRUE(context) << context.error().text;
  PatternState state, expected;
  expected.fill(5);
  ASSERT_TRUE(state.enroll(**context));
  std::string note;
  ASSERT_TRUE((*context)->restore(DLCKPT_LATEST, &note));
  EXPECT_TRUE(state == expected);
}

TEST(CheckpointObjectLevel, WhatStopsOnItsWayDoesNotCount) {
  const TempDir from;
  save(from.path(), 5);
  const CheckpointName name = newest(from.path());
  MemoryStore whole;
  ASSERT_TRUE(send_checkpoint(posix_io(), from.path(), name, whole));
  for (int puts = 0; puts < static_cast<int>(whole.objects.size()); ++puts) {
    MemoryStore store;
    store.puts_left = puts;
    EXPECT_FALSE(send_checkpoint(posix_io(), from.path(), name, store));
    EXPECT_TRUE(list_checkpoints(store)->empty()) << puts;
    EXPECT_TRUE(store.objects.empty()) << puts;
  }
  // Killed instead, so that nobody tidied up.
  MemoryStore torn;
  torn.objects = whole.objects;
  torn.objects.erase(format_checkpoint_name(name) + "/" + kManifestName);
  EXPECT_TRUE(list_checkpoints(torn)->empty());
  EXPECT_FALSE(fetch_checkpoint(torn, name, posix_io(), from.path()));
}

TEST(CheckpointObjectLevel, WhatWasSentBeforeIsKeptWhateverHappensToASecondTry) {
  const TempDir from;
  save(from.path(), 5);
  const CheckpointName name = newest(from.path());
  MemoryStore store;
  ASSERT_TRUE(send_checkpoint(posix_io(), from.path(), name, store));
  const auto objects = store.objects;
  store.puts_left = 0;  // nothing can be put any more
  EXPECT_TRUE(send_checkpoint(posix_io(), from.path(), name, store));
  EXPECT_EQ(store.objects, objects);
  std::string& manifest = store.objects[format_checkpoint_name(name) + "/" + kManifestName];
  manifest += " ";
  EXPECT_EQ(send_checkpoint(posix_io(), from.path(), name, store).error().code, Errc::kCorrupt);
  EXPECT_EQ(store.objects.size(), objects.size());
}

TEST(CheckpointObjectLevel, DamageDoesNotPassInEitherDirection) {
  const TempDir from;
  save(from.path(), 5);
  const CheckpointName name = newest(from.path());
  MemoryStore good;
  ASSERT_TRUE(send_checkpoint(posix_io(), from.path(), name, good));
  for (const auto& [key, object] : good.objects) {
    for (const size_t at : {size_t{0}, object.size() / 2, object.size() - 1}) {
      const TempDir to;
      MemoryStore store;
      store.objects = good.objects;
      store.objects[key][at] = static_cast<char>(store.objects[key][at] ^ 1);
      EXPECT_FALSE(fetch_checkpoint(store, name, posix_io(), to.path())) << key << " " << at;
      EXPECT_TRUE(scan_checkpoints(posix_io(), to.path())->empty());
      if (key.find(kManifestName) != std::string::npos) continue;

      const std::string path = from.path() + "/" + key;
      std::ofstream(path, std::ios::binary) << store.objects[key];
      MemoryStore empty;
      EXPECT_FALSE(send_checkpoint(posix_io(), from.path(), name, empty)) << key << " " << at;
      EXPECT_TRUE(empty.objects.empty());
      std::ofstream(path, std::ios::binary) << object;
    }
    MemoryStore cut;
    cut.objects = good.objects;
    cut.objects[key].pop_back();
    const TempDir to;
    EXPECT_FALSE(fetch_checkpoint(cut, name, posix_io(), to.path())) << key;
  }
}

TEST(CheckpointObjectLevel, TheNewestIsListedFirstAndARemovedOneIsGone) {
  const TempDir from;
  MemoryStore store;
  for (const int64_t step : {3, 9, 4}) {  // 4: after going back
    save(from.path(), step);
    ASSERT_TRUE(send_checkpoint(posix_io(), from.path(), newest(from.path()), store));
  }
  auto listed = list_checkpoints(store);
  ASSERT_EQ(listed->size(), 3U);
  EXPECT_EQ((*listed)[0].step, 4);
  EXPECT_EQ((*listed)[2].step, 3);
  ASSERT_TRUE(remove_checkpoint(store, (*listed)[0]));
  EXPECT_EQ(list_checkpoints(store)->front().step, 9);
  EXPECT_TRUE(store.list(format_checkpoint_name((*listed)[0]))->empty());
}

TEST(CheckpointObjectLevel, WhatMayPassIsTriedAgainAndReadingGoesOnWhereItWasCut) {
  const TempDir from, to;
  save(from.path(), 5);
  const CheckpointName name = newest(from.path());
  MemoryStore store;
  store.busy_puts = 3;
  const auto sent = send_checkpoint(posix_io(), from.path(), name, store);
  ASSERT_TRUE(sent) << sent.error().text;
  EXPECT_TRUE(*sent);
  store.cuts = 7;
  const Status fetched = fetch_checkpoint(store, name, posix_io(), to.path());
  ASSERT_TRUE(fetched) << fetched.error().text;
  EXPECT_EQ(store.cuts, 0);
  EXPECT_TRUE(verify_checkpoint(posix_io(), to.path(), name));
}

TEST(CheckpointObjectLevel, AStoreThatStaysAwayLeavesWhatTheNextTryGoesOnFrom) {
  const TempDir from;
  save(from.path(), 5);
  const CheckpointName name = newest(from.path());
  MemoryStore whole;
  ASSERT_TRUE(send_checkpoint(posix_io(), from.path(), name, whole));
  MemoryStore store;
  store.objects = whole.objects;
  store.objects.erase(format_checkpoint_name(name) + "/" + kManifestName);
  store.objects.begin()->second.pop_back();  // cut by a kill
  store.busy_puts = store.tries;
  EXPECT_EQ(send_checkpoint(posix_io(), from.path(), name, store).error().code, Errc::kBusy);
  EXPECT_EQ(store.objects.size(), whole.objects.size() - 1);
  EXPECT_TRUE(list_checkpoints(store)->empty());
  const auto sent = send_checkpoint(posix_io(), from.path(), name, store);
  ASSERT_TRUE(sent) << sent.error().text;
  EXPECT_EQ(store.order.size(), 2U) << "the one that was cut, and the manifest";
  EXPECT_EQ(store.objects, whole.objects);
}

TEST(CheckpointObjectLevel, RetentionKeepsWhatItKeepsInADirectory) {
  const TempDir from;
  MemoryStore store;
  std::vector<CheckpointName> names;
  for (int64_t step = 1; step <= 5; ++step) {
    save(from.path(), step);
    names.push_back(newest(from.path()));
    ASSERT_TRUE(send_checkpoint(posix_io(), from.path(), names.back(), store));
  }
  const auto steps = [&] {
    std::vector<int64_t> found;
    const auto listed = list_checkpoints(store);
    for (const CheckpointName& name : *listed) found.push_back(name.step);
    return found;
  };
  const auto manifest_of = [](const CheckpointName& name) {
    return format_checkpoint_name(name) + "/" + kManifestName;
  };
  store.objects.erase(manifest_of(names[3]));  // an attempt that was killed
  const auto pinned = [](const CheckpointName& name) { return name.step == 1; };
  const auto removed = retire_objects(store, RetentionPolicy{2, 0, {}}, names[4], pinned);
  ASSERT_TRUE(removed) << removed.error().text;
  ASSERT_EQ(removed->size(), 1U);
  EXPECT_EQ(removed->front().step, 2);
  EXPECT_EQ(steps(), (std::vector<int64_t>{5, 3, 1}));
  EXPECT_TRUE(store.list(format_checkpoint_name(names[3]))->empty());
}

TEST(CheckpointObjectLevel, APinGoesAheadOfTheManifestAndComesBack) {
  const TempDir from, to;
  save(from.path(), 5);
  const CheckpointName name = newest(from.path());
  ASSERT_TRUE(pin(posix_io(), from.path(), name, "for the paper"));
  MemoryStore store;
  ASSERT_TRUE(send_checkpoint(posix_io(), from.path(), name, store));
  const std::string key = format_checkpoint_name(name) + "/" + kPinnedName;
  EXPECT_EQ(store.objects[key], "for the paper\n");
  EXPECT_EQ(store.order.back(), format_checkpoint_name(name) + "/" + kManifestName);
  EXPECT_EQ(list_objects(store)->pinned, (std::set<uint64_t>{name.save_id}));
  ASSERT_TRUE(fetch_checkpoint(store, name, posix_io(), to.path()));
  EXPECT_EQ(*pin_note(posix_io(), to.path(), name), "for the paper\n");

  // An attempt that was killed, whose checkpoint was unpinned since.
  store.objects.erase(format_checkpoint_name(name) + "/" + kManifestName);
  ASSERT_TRUE(unpin(posix_io(), from.path(), name));
  ASSERT_TRUE(send_checkpoint(posix_io(), from.path(), name, store));
  EXPECT_EQ(store.objects.count(key), 0U);
}

TEST(CheckpointObjectLevel, APinCanBeSetAndTakenBackThere) {
  const TempDir from;
  save(from.path(), 5);
  const CheckpointName name = newest(from.path());
  MemoryStore store;
  ASSERT_TRUE(send_checkpoint(posix_io(), from.path(), name, store));
  ASSERT_TRUE(pin_object(store, name, "why"));
  EXPECT_EQ(list_objects(store)->pinned, (std::set<uint64_t>{name.save_id}));
  ASSERT_TRUE(unpin_object(store, name));
  ASSERT_TRUE(unpin_object(store, name));
  EXPECT_TRUE(list_objects(store)->pinned.empty());
  // One that a run removes meanwhile does not come back as a pin alone.
  ASSERT_TRUE(remove_checkpoint(store, name));
  const Status pinned = pin_object(store, name, "");
  ASSERT_FALSE(pinned);
  EXPECT_EQ(pinned.error().code, Errc::kNotFound);
  EXPECT_TRUE(store.objects.empty());
}

TEST(CheckpointObjectLevel, AMissingDirectoryUnpinsNothing) {
  const TempDir from;
  save(from.path(), 5);
  const CheckpointName name = newest(from.path());
  ASSERT_TRUE(pin(posix_io(), from.path(), name, ""));
  MemoryStore store;
  ASSERT_TRUE(send_checkpoint(posix_io(), from.path(), name, store));
  std::filesystem::remove_all(checkpoint_path(from.path(), name));
  ASSERT_TRUE(send_pins(posix_io(), from.path(), store, *list_objects(store)));
  save(from.path(), 6);
  const auto here = [&](const CheckpointName& each) { return is_pinned(posix_io(), from.path(), each); };
  const auto removed = retire_objects(store, RetentionPolicy{1, 0, {}}, newest(from.path()), here);
  ASSERT_TRUE(removed);
  EXPECT_TRUE(removed->empty());
}

TEST(CheckpointObjectLevel, ItIsToldOfEachMiBThatMoves) {
  const TempDir from;
  run_ranks(1, [&](int) {
    auto context = open_context(settings_for(from.path()));
    ASSERT_TRUE(context);
    PatternState state(1'500'000);  // one block of 6 MB or so
    state.fill(5);
    ASSERT_TRUE(state.enroll(**context));
    ASSERT_TRUE((*context)->save(5, DLCKPT_SYNC));
  });
  MemoryStore store;
  uint64_t before = 0, largest = 0, last = 0, all = 0;
  ASSERT_TRUE(send_checkpoint(posix_io(), from.path(), newest(from.path()), store, [&](uint64_t done, uint64_t of) {
    largest = std::max(largest, done - before);
    before = last = done;
    all = of;
  }));
  EXPECT_GT(all, uint64_t{5} << 20);
  EXPECT_EQ(last, all);
  EXPECT_LE(largest, uint64_t{1} << 20);
}

}  // namespace
}  // namespace dl::ckpt::test
