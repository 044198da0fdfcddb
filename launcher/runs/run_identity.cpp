// SPDX-License-Identifier: Apache-2.0
#include "launcher/runs/run_identity.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

namespace dl::runs {
namespace {

constexpr size_t kDigits = 16;

// FNV-1a with 64 bits. It need not resist attacks: collisions concern only the user's own job.
class Hash {
 public:
  // Adds the length first, so that "a","bc" and "ab","c" differ.
  Hash& add(const std::string& text) {
    for (size_t left = text.size(), i = 0; i < sizeof left; ++i, left >>= 8) add_byte(static_cast<uint8_t>(left));
    for (const char c : text) add_byte(static_cast<uint8_t>(c));
    return *this;
  }
  std::string hex() const { return fmt::format("{:016x}", value_); }

 private:
  void add_byte(uint8_t byte) {
    value_ ^= byte;
    value_ *= 0x100000001b3ULL;
  }
  uint64_t value_ = 0xcbf29ce484222325ULL;
};

// Whether a variable's value differs between starts of the job, or between nodes.
bool is_volatile(const std::string& name) {
  static const char* const kPrefixes[] = {"SLURM", "SRUN_", "SBATCH_", "SALLOC_", "DL_",
                                          "PMI",   "OMPI_", "XDG_",    "SSH_"};
  static const char* const kNames[] = {"CUDA_VISIBLE_DEVICES",
                                       "ROCR_VISIBLE_DEVICES",
                                       "HIP_VISIBLE_DEVICES",
                                       "GPU_DEVICE_ORDINAL",
                                       "ZE_AFFINITY_MASK",
                                       "TMPDIR",
                                       "HOSTNAME",
                                       "HOST",
                                       "MASTER_ADDR",
                                       "MASTER_PORT",
                                       "PWD",
                                       "OLDPWD",
                                       "SHLVL",
                                       "_",
                                       "KRB5CCNAME",
                                       "DBUS_SESSION_BUS_ADDRESS",
                                       "ENVIRONMENT"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](const char* prefix) { return name.rfind(prefix, 0) == 0; }) ||
         std::any_of(std::begin(kNames), std::end(kNames), [&](const char* each) { return name == each; });
}

bool is_hex(const std::string& text) {
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

bool operator==(const RunIdentity& a, const RunIdentity& b) {
  return a.what == b.what && a.environment == b.environment;
}

RunIdentity identify(const plan::LaunchPlan& plan, const plan::Environment& environment) {
  Hash what, around;
  for (const std::string& word : plan.command) what.add(word);
  what.add("")
      .add(plan.job_id)
      .add(plan.work_dir)
      .add(plan.checkpoint ? plan.checkpoint->path : "")
      .add(plan.container.image);
  for (const auto& [name, value] : environment)
    if (!is_volatile(name)) around.add(name).add(value);
  return {what.hex(), around.hex()};
}

RunIdentity parse_identity(const std::string& text) {
  if (text.size() != 2 * kDigits + 1 || text[kDigits] != '-') return {};
  RunIdentity identity{text.substr(0, kDigits), text.substr(kDigits + 1)};
  return is_hex(identity.what) && is_hex(identity.environment) ? identity : RunIdentity{};
}

}  // namespace dl::runs
