// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "checkpoint/format/names.h"
#include "checkpoint/levels/levels.h"
#include "checkpoint/store/directory.h"
#include "common/base/parse.h"
#include "common/contract/env_names.h"
#include "common/contract/objects_place.h"
#include "common/contract/path_pattern.h"
#include "common/contract/request_values.h"

namespace dl::ckpt {
namespace {

constexpr const char* kModeVariable = "DL_CHECKPOINT_MODE";
constexpr int kMaxKeep = 1000000;

// The value of a variable; an empty one counts as unset.
std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return std::string(value);
}

Result<std::optional<int>> int_variable(const char* name, int min, int max) {
  const auto text = variable(name);
  if (!text) return std::optional<int>();
  auto value = parse_int(*text, min, max);
  if (!value) return std::move(value).error().with_context(name);
  return std::optional<int>(static_cast<int>(*value));
}

// Takes rank and world size from the first pair of which both variables are set. The Python module's find_world() does
// the same (tests/python/test_pure.py compares the two).
Status resolve_rank(Settings* settings) {
  struct Pair {
    const char* rank;
    const char* size;
  };
  static constexpr Pair kPairs[] = {{env::kRoleRank, env::kRoleSize},  // their numbers do not count parameter servers
                                    {env::kRank, env::kWorldSize},
                                    {"RANK", "WORLD_SIZE"},
                                    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                    {"PMIX_RANK", "SLURM_NTASKS"},
                                    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
  for (const Pair& pair : kPairs) {
    if (!variable(pair.rank) || !variable(pair.size)) continue;
    DL_TRY_ASSIGN(const std::optional<int> rank, int_variable(pair.rank, 0, kMaxRanks - 1));
    DL_TRY_ASSIGN(const std::optional<int> size, int_variable(pair.size, 1, kMaxRanks));
    settings->rank = *rank;
    settings->world_size = *size;
    return {};
  }
  return {};
}

// The name that the PMIx server of mpirun gave this start. Slurm's own server names the job step ("slurm.pmix.12.0"),
// and a job that was requeued gets the same name again, so this is not taken.
std::optional<std::string> name_by_mpirun() {
  constexpr size_t kMostTaken = 200;
  const auto name = variable("PMIX_NAMESPACE");
  if (!name || name->rfind("slurm.pmix.", 0) == 0) return std::nullopt;
  return name->substr(0, kMostTaken);
}

// The order is that of options.run_id in dlckpt.h. A name that is more certainly new at each start comes first:
// torchrun and mpirun may start learners several times within one job step.
Status resolve_run_id(Settings* settings) {
  if (!settings->run_id.empty()) return {};
  if (const auto id = variable(env::kRunId)) {
    settings->run_id = *id;
  } else if (settings->world_size == 1) {
    settings->run_id = "local-" + format_save_id(random_u64());
  } else if (const auto elastic = variable("TORCHELASTIC_RUN_ID")) {
    settings->run_id = *elastic + "@" + variable("MASTER_ADDR").value_or("") + ":" +
                       variable("MASTER_PORT").value_or("") + "#" +
                       variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
  } else if (const auto name = name_by_mpirun()) {
    settings->run_id = "pmix-" + *name;
  } else if (const auto job = variable("SLURM_JOB_ID")) {
    // In a plain srun each job step is one start of the job.
    settings->run_id = "slurm-" + *job + "." + variable("SLURM_STEP_ID").value_or("0") + "-" +
                       variable("SLURM_RESTART_COUNT").value_or("0");
  } else {
    return Error{Errc::kInvalid,
                 "no run id: with more than one rank set DL_RUN_ID (or options.run_id) to the same text "
                 "on all ranks, another for each start"};
  }
  if (settings->run_id.size() > 256)
    return Error{Errc::kInvalid, "the run id (options.run_id or DL_RUN_ID) has " +
                                     std::to_string(settings->run_id.size()) + " bytes; allowed: at most 256"};
  return {};
}

// Whether DL_CHECKPOINT has the option `word` ("every=") after its path.
bool request_names(const std::string& word) {
  const std::string text = variable(env::kCheckpoint).value_or("");
  const size_t path_end = text.rfind('"');  // end of a path in quotes, which may contain anything
  return text.find("," + word, path_end == std::string::npos ? 0 : path_end) != std::string::npos;
}

// For options.environment_first: removes from the options what the environment says, so that the environment's value
// counts.
void strike_what_the_environment_says(dlckpt_options* options) {
  if (variable(env::kCheckpointDir) || variable(env::kCheckpoint)) options->dir = nullptr;
  if (request_names("every=")) {
    options->every_s = 0;
    options->every_steps = 0;
  }
  if (request_names("keep=")) options->keep = 0;
  if (variable(kModeVariable)) options->mode = 0;
}

// The settings for which the environment has a value and the options (after the removal above) have none.
unsigned left_to_the_environment(const dlckpt_options& options) {
  unsigned left = 0;
  if (!options.dir || !*options.dir) left |= DLCKPT_SETTING_DIR;
  if (options.every_s == 0 && options.every_steps == 0 && request_names("every=")) left |= DLCKPT_SETTING_EVERY;
  if (options.keep == 0 && request_names("keep=")) left |= DLCKPT_SETTING_KEEP;
  if (options.mode == 0 && variable(kModeVariable)) left |= DLCKPT_SETTING_MODE;
  return left;
}

// Checks values that are wrong in any case, even if the environment's counts in the end.
Status check_given(const dlckpt_options& options) {
  if (options.mode < 0 || options.mode > DLCKPT_MODE_LAZY)
    return Error{Errc::kInvalid, "options.mode is " + std::to_string(options.mode) + "; allowed: 0 to 3"};
  if (options.keep < 0 || options.keep > kMaxKeep)
    return Error{Errc::kInvalid,
                 "keep is " + std::to_string(options.keep) + "; allowed: 1 to " + std::to_string(kMaxKeep)};
  return {};
}

// Whether the program's own directory is the one that was asked for at submission.
bool is_requested(const std::string& dir, const std::string& requested) {
  const auto place_of = [](std::string path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    std::error_code failure;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, failure), failure);
  };
  return place_of(dir) == place_of(variable(env::kCheckpointDir).value_or(requested));
}

// DL_CHECKPOINT=PATH[,every=..][,keep=..] sets what is still open.
Status resolve_request(Settings* settings, bool interval_given, bool keep_given) {
  const auto text = variable(env::kCheckpoint);
  if (!text) return {};
  auto spec = parse_checkpoint(*text);
  if (!spec) return std::move(spec).error().with_context(env::kCheckpoint);
  // Without dlrun nobody has expanded the placeholders yet. Those of a path that is not used do not matter.
  if (!settings->dir.empty()) spec->literal = true;
  if (!settings->local_dir.empty()) spec->local.clear();
  if (!settings->objects.empty()) spec->objects.clear();
  const PathNames names = names_in_environment([](const char* name) { return variable(name).value_or(""); });
  if (Status expanded = expand_checkpoint(names, &*spec); !expanded)
    return std::move(expanded).error().with_context(env::kCheckpoint);
  if (settings->dir.empty()) settings->dir = spec->path;
  if (settings->keep_every == 0) settings->keep_every = spec->keep_every;
  if (!settings->best) settings->best = spec->best;
  if (settings->local_dir.empty()) settings->local_dir = spec->local;
  settings->partner = settings->partner || spec->partner;
  // Another directory of the program would restore and remove this one's checkpoints there.
  if (settings->objects.empty() && is_requested(settings->dir, spec->path)) settings->objects = spec->objects;
  if (!interval_given) {
    settings->every_auto = spec->every_auto;
    if (spec->every) settings->every_s = static_cast<double>(spec->every->count());
    if (spec->every_steps) settings->every_steps = *spec->every_steps;
  }
  if (!keep_given) settings->keep = spec->keep;
  return {};
}

// option 0: the variable decides, where every value but "0" means yes; 1: yes; 2: no.
Result<bool> resolve_switch(const char* option, int value, const char* name) {
  if (value < 0 || value > 2)
    return Error{Errc::kInvalid,
                 std::string("options.") + option + " is " + std::to_string(value) + "; allowed: 0 to 2"};
  return value == 0 ? variable(name).value_or("1") != "0" : value == 1;
}

Status resolve_engine(const dlckpt_options& options, Settings* settings) {
  settings->mode = Settings::kAsync;
  const std::string mode = variable(kModeVariable).value_or("async");
  if (options.mode != 0) {
    settings->mode = options.mode == DLCKPT_MODE_ASYNC  ? Settings::kAsync
                     : options.mode == DLCKPT_MODE_SYNC ? Settings::kSync
                                                        : Settings::kLazy;
  } else if (mode == "sync") {
    settings->mode = Settings::kSync;
  } else if (mode == "lazy") {
    settings->mode = Settings::kLazy;
  } else if (mode != "async") {
    return Error{Errc::kInvalid, "DL_CHECKPOINT_MODE is '" + printable(mode) + "'; allowed: async, sync, lazy"};
  }

  settings->memory_bytes = options.memory_bytes;
  if (const auto memory = variable("DL_CHECKPOINT_MEMORY"); memory && options.memory_bytes == 0) {
    auto bytes = parse_bytes(*memory);
    if (!bytes) return std::move(bytes).error().with_context("DL_CHECKPOINT_MEMORY");
    settings->memory_bytes = *bytes;
  }
  constexpr uint64_t kLeastMemory = uint64_t{1} << 20;
  if (settings->memory_bytes > 0 && settings->memory_bytes < kLeastMemory)
    return Error{Errc::kInvalid, "DL_CHECKPOINT_MEMORY (options.memory_bytes) is " +
                                     std::to_string(settings->memory_bytes) + " bytes; allowed: 1 MiB and more"};

  if (options.write_threads < 0 || options.write_threads > 64)
    return Error{Errc::kInvalid,
                 "options.write_threads is " + std::to_string(options.write_threads) + "; allowed: 0 to 64"};
  settings->write_threads = options.write_threads;

  DL_TRY_ASSIGN(settings->recycle, resolve_switch("recycle", options.recycle, "DL_CHECKPOINT_RECYCLE"));
  DL_TRY_ASSIGN(settings->reuse, resolve_switch("reuse", options.reuse, "DL_CHECKPOINT_REUSE"));
  return {};
}

void resolve_owner(Settings* settings) {
  if (const auto job = variable("SLURM_JOB_ID")) {
    settings->job_id = *job;
    settings->owner = "job " + *job;
  } else {
    settings->owner = "process " + std::to_string(::getpid());
  }
}

Status check(const Settings& settings) {
  if (settings.dir.size() > 3500 || settings.dir.find('\0') != std::string::npos)
    return Error{Errc::kInvalid, "the checkpoint directory's path has " + std::to_string(settings.dir.size()) +
                                     " bytes; allowed: at most 3500"};
  if (settings.world_size < 1 || settings.world_size > kMaxRanks || settings.rank < 0 ||
      settings.rank >= settings.world_size)
    return Error{Errc::kInvalid, "rank " + std::to_string(settings.rank) + " of world size " +
                                     std::to_string(settings.world_size) + "; allowed: world size 1 to " +
                                     std::to_string(kMaxRanks) + ", rank below it"};
  if (!std::isfinite(settings.every_s) || settings.every_s < 0)
    return Error{Errc::kInvalid, "every_s is " + fmt::format("{}", settings.every_s) +
                                     "; allowed: 0, a positive number of seconds, DLCKPT_EVERY_AUTO"};
  if (settings.every_steps < 0)
    return Error{Errc::kInvalid, "every_steps is " + std::to_string(settings.every_steps) + "; allowed: 0 and more"};
  if (settings.keep_every < 0)
    return Error{Errc::kInvalid, "keep_every is " + std::to_string(settings.keep_every) + "; allowed: 0 and more"};
  if (!settings.local_dir.empty() && (settings.local_dir.front() != '/' || settings.local_dir.size() > 1024))
    return Error{Errc::kInvalid, "the node-local directory '" + printable(settings.local_dir) +
                                     "'; allowed: an absolute path of at most 1024 bytes"};
  if (!settings.objects.empty())
    if (Status place = check_objects_place(settings.objects); !place)
      return std::move(place).error().with_context("objects");
  if (settings.partner && settings.local_dir.empty())
    return Error{Errc::kInvalid,
                 "partner is given without a node-local directory, whose files it copies; give local_dir (local= or "
                 "DL_CHECKPOINT_LOCAL), too"};
  if (!std::isfinite(settings.timeout_s) || settings.timeout_s <= 0)
    return Error{Errc::kInvalid, "timeout_s is " + fmt::format("{}", settings.timeout_s) +
                                     "; allowed: 0 (600 seconds), or more seconds"};
  return {};
}

}  // namespace

Result<Resolved> resolve(const dlckpt_options* given) {
  dlckpt_options options{};
  if (given) {
    // The struct of an older program is shorter. A longer one may contain settings that we do not know.
    if (given->struct_size < offsetof(dlckpt_options, dir) + sizeof options.dir || given->struct_size > sizeof options)
      return Error{Errc::kInvalid, "options.struct_size is " + std::to_string(given->struct_size) +
                                       "; allowed: sizeof(dlckpt_options), " + std::to_string(sizeof options) +
                                       " or less where the program is older than this library"};
    std::memcpy(&options, given, given->struct_size);
  }
  DL_TRY(check_given(options));
  if (options.environment_first != 0) strike_what_the_environment_says(&options);
  Settings settings;
  if (options.dir) settings.dir = options.dir;
  if (settings.dir.empty()) settings.dir = variable(env::kCheckpointDir).value_or("");
  if (options.world_size != 0) {
    settings.rank = options.rank;
    settings.world_size = options.world_size;
  } else {
    DL_TRY(resolve_rank(&settings));
  }
  if (options.run_id) settings.run_id = options.run_id;
  DL_TRY(resolve_run_id(&settings));
  settings.every_auto = options.every_s == DLCKPT_EVERY_AUTO;
  if (!settings.every_auto) settings.every_s = options.every_s;
  settings.every_steps = options.every_steps;
  if (options.keep != 0) settings.keep = options.keep;
  if (options.timeout_s != 0) settings.timeout_s = options.timeout_s;
  settings.keep_every = options.keep_every;
  if (options.local_dir) settings.local_dir = options.local_dir;
  // As for the node-local level, the variable has precedence.
  settings.objects = variable("DL_CHECKPOINT_OBJECTS").value_or(options.objects ? options.objects : "");
  settings.partner = options.partner != 0;
  if (options.best && *options.best) {
    auto best = parse_best(options.best);
    if (!best) return std::move(best).error().with_context("best");
    settings.best = *std::move(best);
  }
  DL_TRY(resolve_request(&settings, options.every_s != 0 || options.every_steps != 0, options.keep != 0));
  if (settings.dir.empty()) settings.dir = variable("CHECKPOINT_DIR").value_or("");
  while (settings.dir.size() > 1 && settings.dir.back() == '/') settings.dir.pop_back();
  if (const auto text = variable("DL_CHECKPOINT_MAX_FILES")) {
    const auto files = parse_int(*text, 1, kMaxRanks);
    if (!files) return Error{Errc::kInvalid, "DL_CHECKPOINT_MAX_FILES: " + files.error().text};
    settings.max_files = static_cast<int>(*files);
  }
  settings.progress_page = variable(env::kProgress).value_or("");
  settings.lease_token = variable(env::kLease).value_or("");
  DL_TRY(resolve_engine(options, &settings));
  if (const auto local = variable("DL_CHECKPOINT_LOCAL")) {
    // The form of local= in DL_CHECKPOINT, with ",partner" after the directory for a partner copy.
    const std::string behind = ",partner";
    const bool partner =
        local->size() > behind.size() && local->compare(local->size() - behind.size(), behind.size(), behind) == 0;
    settings.local_dir = partner ? local->substr(0, local->size() - behind.size()) : *local;
    settings.partner = settings.partner || partner;
  }
  settings.node = this_node();
  resolve_owner(&settings);
  DL_TRY(check(settings));
  unsigned from_environment = left_to_the_environment(options);
  if (settings.dir.empty()) from_environment &= ~unsigned{DLCKPT_SETTING_DIR};
  return Resolved{std::move(settings), from_environment};
}

Result<Settings> resolve_settings(const dlckpt_options* given) {
  DL_TRY_ASSIGN(Resolved resolved, resolve(given));
  Settings& settings = resolved.settings;
  if (settings.dir.empty())
    return Error{Errc::kInvalid, "no checkpoint directory: set options.dir, DL_CHECKPOINT_DIR or CHECKPOINT_DIR"};
  DL_TRY(refuse_checkpoint(settings.dir));
  settings.dir = from_root(settings.dir);
  return std::move(settings);
}

}  // namespace dl::ckpt
