// SPDX-License-Identifier: Apache-2.0
// Functions that the subcommands of dlckpt share. A subcommand is one file with one function that adds it to the
// command line.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/store/verify.h"
#include "common/cli/command_line.h"
#include "common/cli/progress_bar.h"
#include "common/json/json.h"

namespace dl::ckpt::tool {

// Exit codes of dlckpt; dlckpt(1) lists them. kNothing also stands for any failure other than a damaged checkpoint.
// diff has codes of its own (0 equal, 1 different, 2 trouble).
enum ExitCode { kOk = 0, kDamaged = 1, kUsage = 2, kNothing = 3 };

// Each has a row in dlckpt.cpp. The subcommand's callback stores its exit code in *exit_code.
void add_ls(CommandLine* line, int* exit_code);
void add_show(CommandLine* line, int* exit_code);
void add_verify(CommandLine* line, int* exit_code);
void add_diff(CommandLine* line, int* exit_code);
void add_export(CommandLine* line, int* exit_code);
void add_import(CommandLine* line, int* exit_code);

// The meaning of a PATH on the command line: a checkpoint directory, or one checkpoint in it.
struct Target {
  std::string dir;
  std::optional<CheckpointName> only;
};
Target resolve_target(const std::string& path);

// kNotFound, with a sentence that helps after a typing mistake, if it does not exist or is no directory.
Status check_directory(const std::string& dir);
// Makes it unless it is there already. kNotFound if something else is there; else the error of the system.
Status make_directory(const std::string& dir);
// The committed checkpoints that a target means, newest first; with a train step only those of that step. kNotFound if
// there are none.
Result<std::vector<CheckpointName>> select_checkpoints(const Target& target, const std::optional<int64_t>& step);

// Prints "dlckpt: TEXT" on stderr.
void complain(const std::string& text);
// Prints to stdout, with a newline.
void print_line(const std::string& text);
void print_json(const Json& json);

// "2026-03-01 12:30:00" in the local time zone.
std::string format_time(int64_t unix_ms);

// Checks manifest, sizes, user blocks and block tables: everything except the data. kNotFound if the job removed the
// checkpoint meanwhile.
Result<Manifest> inspect(const std::string& dir, const CheckpointName& name);
// The same checks, without those of tensors and blobs, which the result does not have.
Result<Manifest> inspect_outline(const std::string& dir, const CheckpointName& name);

// The newest of the checkpoints that a target means, as select_checkpoints() finds them, and what inspect() says of it.
// If it is removed meanwhile, the next newest is taken, unless the target or the train step says which one is meant.
struct Newest {
  CheckpointName name;
  Result<Manifest> manifest;
};
Result<Newest> select_newest(const Target& target, const std::optional<int64_t>& step);

// The progress bar for work that is measured in bytes.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label) : bar_(std::move(label)) {}
  // Any thread may call this.
  void update(uint64_t done, uint64_t total);

 private:
  dl::ProgressBar bar_;
};

}  // namespace dl::ckpt::tool
