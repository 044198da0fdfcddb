// SPDX-License-Identifier: Apache-2.0
// dlckpt verify: reads every byte and compares every checksum, without libhdf5, and repairs from another copy.
#include <fmt/core.h>

#include <cerrno>

#include "checkpoint/store/directory.h"
#include "checkpoint/tools/command.h"
#include "checkpoint/tools/repair.h"
#include "common/base/parse.h"

namespace dl::ckpt::tool {
namespace {

struct VerifyOptions {
  std::vector<std::string> paths;
  std::optional<int64_t> step;
  std::string repair_from;
  bool json = false, quiet = false, quick = false, deep = false;
};

Meter meter_of(ProgressBar* bar) {
  return [bar](uint64_t done, uint64_t total) { bar->update(done, total); };
}

Json damage_json(const Manifest& manifest, const std::vector<Damage>& damage) {
  Json list = Json::array();
  for (const Damage& item : damage) {
    const StoredFile file = stored_file(manifest, item.file);
    Json row{{"file", file.name}};
    if (item.block != Damage::kWholeFile) {
      row["at"] = (*file.blocks)[item.block].at;
      row["bytes"] = (*file.blocks)[item.block].length;
    }
    row["reason"] = item.reason;
    row["tensors"] = item.tensors;
    list.push_back(std::move(row));
  }
  return list;
}

// The verification of one checkpoint.
class Verification {
 public:
  Verification(std::string dir, const CheckpointName& name, const VerifyOptions& options)
      : dir_(std::move(dir)), name_(name), options_(options), title_(format_checkpoint_name(name)) {}

  // Returns its exit code, and appends its row to the list. kNothing, and no row, if its job removed it meanwhile.
  ExitCode run(Json* list) {
    Verdict verdict = examine();
    if (!verdict.sound() && is_gone(posix_io(), dir_, name_)) {
      complain(title_ + ": not verified: " + gone_error(posix_io(), dir_, name_).text);
      return kNothing;
    }
    if (!verdict.sound() && !options_.repair_from.empty()) verdict = mend(std::move(verdict));
    Json row{{"dir", dir_}, {"name", title_}, {"step", name_.step}, {"verified", verdict.sound()}};
    if (verdict.manifest) row["bytes"] = verdict.manifest->total_bytes();
    if (!verdict.sound()) {
      row["reason"] = verdict.reason;
      tell_damage(verdict);
    } else {
      if (!options_.json && !options_.quiet)
        print_line(fmt::format("{}: {}, {} in {} file{}", title_, options_.quick ? "looks sound" : "verified",
                               format_bytes(verdict.manifest->total_bytes()), stored_count(*verdict.manifest),
                               stored_count(*verdict.manifest) == 1 ? "" : "s"));
      if (options_.deep) look_at_values(*verdict.manifest, &row);
    }
    if (verdict.manifest) row["damage"] = damage_json(*verdict.manifest, verdict.damage);
    if (!options_.repair_from.empty()) row["repaired"] = mended_;
    list->push_back(std::move(row));
    return verdict.sound() ? kOk : kDamaged;
  }

 private:
  Verdict examine() const {
    ProgressBar bar(title_);
    return judge(posix_io(), dir_, name_, options_.quick ? Depth::kQuick : Depth::kFull, meter_of(&bar));
  }

  Verdict mend(Verdict verdict) {
    auto copy = find_copy(posix_io(), options_.repair_from, name_);
    if (!copy) {
      complain(title_ + ": " + copy.error().text);
      return verdict;
    }
    auto mended = repair(posix_io(), dir_, name_, verdict, *copy);
    if (!mended) {
      complain(title_ + ": cannot be repaired: " + mended.error().text);
      // Some of it may have been repaired; the remaining damage decides.
      return examine();
    }
    mended_ = *std::move(mended);
    if (!options_.json)
      for (const std::string& file : mended_) print_line(fmt::format("{}: {} repaired from {}", title_, file, *copy));
    return examine();
  }

  void tell_damage(const Verdict& verdict) const {
    if (options_.json) return;
    if (verdict.damage.size() < 2) return complain(title_ + ": damaged: " + verdict.reason);
    complain(fmt::format("{}: damaged: {} faults", title_, verdict.damage.size()));
    constexpr size_t kShown = 20;
    for (size_t i = 0; i < std::min(kShown, verdict.damage.size()); ++i)
      complain(title_ + ": damaged: " + describe(*verdict.manifest, verdict.damage[i]));
    if (verdict.damage.size() > kShown)
      complain(fmt::format("{}: and {} more; --json lists all", title_, verdict.damage.size() - kShown));
  }

  void look_at_values(const Manifest& manifest, Json* row) const {
    ProgressBar bar(title_ + " values");
    auto found = find_non_finite(posix_io(), checkpoint_path(dir_, name_), manifest, meter_of(&bar));
    if (!found) return complain(title_ + ": " + error_or_gone(posix_io(), dir_, name_, std::move(found).error()).text);
    Json list = Json::array();
    for (const NonFiniteTensor& tensor : *found) {
      list.push_back({{"path", tensor.path}, {"nan", tensor.nan}, {"infinite", tensor.infinite}});
      if (!options_.json)
        print_line(fmt::format("{}: {} has {} NaN and {} infinite values", title_, printable(tensor.path, 200),
                               tensor.nan, tensor.infinite));
    }
    (*row)["non_finite"] = std::move(list);
  }

  std::string dir_;
  CheckpointName name_;
  const VerifyOptions& options_;
  std::string title_;
  std::vector<std::string> mended_;
};

// The place of the other copies is looked at although nothing may be damaged: whoever relies on it learns that it is
// gone.
Status check_place(const std::string& path) {
  Io::Info info;
  const int rc = posix_io().stat(path, &info);
  if (rc == 0 && info.directory) return {};
  const char* what = rc == 0                           ? "this is not a directory"
                     : rc == -ENOENT || rc == -ENOTDIR ? "there is no such directory"
                                                       : nullptr;
  if (!what) return io_error("look at", "--repair-from " + path, rc);
  return Error{Errc::kNotFound, "--repair-from " + printable(path) + ": " + what +
                                    "; allowed: a directory with another copy of the checkpoints, or one of these"};
}

int run(const VerifyOptions& options) {
  if (!options.repair_from.empty())
    if (const Status place = check_place(options.repair_from); !place) {
      complain(place.error().text);
      return kNothing;
    }
  bool sound = true, nothing = false;
  Json list = Json::array();
  for (const std::string& path : options.paths) {
    const Target target = resolve_target(path);
    auto names = select_checkpoints(target, options.step);
    if (!names) {
      complain(names.error().text);
      nothing = true;
      continue;
    }
    size_t gone = 0;
    for (const CheckpointName& name : *names) {
      const ExitCode outcome = Verification(target.dir, name, options).run(&list);
      sound = outcome != kDamaged && sound;
      gone += outcome == kNothing ? 1 : 0;
    }
    // Those that remain count, if any remains.
    nothing = nothing || gone == names->size();
  }
  if (options.json) print_json(list);
  if (!sound) return kDamaged;
  return nothing ? kNothing : kOk;
}

}  // namespace

void add_verify(CommandLine* line, int* exit_code) {
  auto* command = line->subcommand("verify", "Read everything and compare all checksums; repair from another copy");
  auto options = std::make_shared<VerifyOptions>();
  command->argument("PATH", &options->paths, "Checkpoint directory, or one checkpoint in it").required();
  command->option("--step", &options->step, "Only checkpoints of this train step").between(0, 9e18L);
  command->flag("--deep", &options->deep, "Also look at the values: name tensors with NaN or infinity");
  command->flag("--quick", &options->quick, "Only manifest, sizes and block tables; not the data").excludes("--deep");
  command
      ->option("--repair-from", &options->repair_from,
               "Take what is damaged from this directory, which holds the same save")
      .excludes("--quick");
  command->flag("--json", &options->json, "Print an array of objects");
  command->flag("-q,--quiet", &options->quiet, "Print only what is damaged");
  command->action([=] { *exit_code = run(*options); });
}

}  // namespace dl::ckpt::tool
