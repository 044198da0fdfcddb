// SPDX-License-Identifier: Apache-2.0
#include "launcher/use/use_sentence.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "common/base/count.h"
#include "common/base/parse.h"

namespace dl::use {
namespace {

constexpr double kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

double in(const Facts& facts, Phase phase) {
  return facts.seconds[static_cast<size_t>(phase)];
}

// Seconds in which all learners ran.
double ran_s(const Facts& facts) {
  return in(facts, Phase::kStarting) + in(facts, Phase::kTraining) + in(facts, Phase::kSaving);
}

double saving_share(const Facts& facts) {
  return ran_s(facts) > 0 ? in(facts, Phase::kSaving) / ran_s(facts) : 0;
}

std::string percent_text(double share) {
  const double percent = std::clamp(share, 0.0, 1.0) * 100;
  return percent > 0 && percent < 1 ? "less than 1 %" : fmt::format("{:.0f} %", percent);
}

// The unit is that of the larger number, if there are two.
const char* unit_of(double bytes) {
  return bytes >= kGiB ? "GiB" : bytes >= kMiB ? "MiB" : "KiB";
}

std::string number_text(double bytes, const char* unit) {
  const double number = bytes / (unit[0] == 'G' ? kGiB : unit[0] == 'M' ? kMiB : kKiB);
  return number < 10 && unit[0] == 'G' && number != std::floor(number) ? fmt::format("{:.1f}", number)
                                                                       : fmt::format("{:.0f}", number);
}

std::string bytes_text(double bytes) {
  const char* unit = unit_of(bytes);
  return number_text(bytes, unit) + " " + unit;
}

std::string memory_text(const Facts& facts) {
  const double used = *facts.memory;
  if (!facts.memory_asked) return bytes_text(used);
  const char* unit = unit_of(*facts.memory_asked);
  // "0.2 of 64 GiB" would hide too much of what small jobs use.
  if (unit[0] != unit_of(used)[0]) return bytes_text(used) + " of " + bytes_text(*facts.memory_asked);
  return number_text(used, unit) + " of " + bytes_text(*facts.memory_asked);
}

std::string cpus_text(const Facts& facts) {
  const double used = *facts.cpus_used;
  const std::string text = used < 0.05 ? "less than 0.1" : fmt::format("{:.1f}", used);
  if (facts.cpus > 0) return fmt::format("{} of {} CPU{}", text, facts.cpus, facts.cpus == 1 ? "" : "s");
  return text + " CPUs";
}

// "a, b and c"
std::string listed(const std::vector<std::string>& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

// ---- suggestions, those first that gain most

std::string saves_hold_up(const Facts& facts) {
  if (saving_share(facts) <= 0.1) return {};
  return "save less often, or let saves go on beside the training (mode=\"lazy\", in C DLCKPT_LAZY)";
}

std::string train_gpu_below(const Facts& facts, double share) {
  const auto& used = facts.gpu_share_in[static_cast<size_t>(Phase::kTraining)];
  if (facts.gpus == 0 || facts.gpus_measured < facts.gpus || !used || *used >= share) return {};
  if (in(facts, Phase::kTraining) < kLeastSeconds) return {};
  return percent_text(*used);
}

std::string loading_holds_up(const Facts& facts) {
  const auto& cpus = facts.cpus_used_in[static_cast<size_t>(Phase::kTraining)];
  if (facts.cpus == 0 || !cpus || *cpus < 0.9 * facts.cpus || train_gpu_below(facts, 0.5).empty()) return {};
  return "all CPUs are busy while the GPUs wait, so loading data is likely to hold the training up: ask for more CPUs, "
         "or prepare the data before";
}

std::string gpus_wait(const Facts& facts) {
  const std::string used = train_gpu_below(facts, 0.5);
  if (used.empty()) return {};
  return fmt::format(
      "while it trained, the GPUs computed {} of the time: {}look for what they wait for (dl.LoaderStall "
      "measures the loader)",
      used, facts.gpus > 1 ? "try fewer GPUs, or " : "");
}

std::string cpus_lie_idle(const Facts& facts) {
  if (!facts.asked || facts.cpus < 4 || !facts.most_cpus_used || *facts.most_cpus_used > facts.cpus / 4.0) return {};
  return fmt::format("never more than {:.1f} CPUs were in use: ask for fewer", std::max(0.1, *facts.most_cpus_used));
}

std::string memory_lies_idle(const Facts& facts) {
  if (!facts.memory || !facts.memory_asked || *facts.memory_asked < kGiB) return {};
  if (*facts.memory > 0.1 * *facts.memory_asked) return {};
  const double enough = std::max(1.0, std::ceil(2 * *facts.memory / kGiB)) * kGiB;
  return fmt::format("its memory was never more than {} in use: {} in all would leave room",
                     percent_text(*facts.memory / *facts.memory_asked), bytes_text(enough));
}

constexpr std::string (*kSuggestions[])(const Facts&) = {saves_hold_up, loading_holds_up, gpus_wait, cpus_lie_idle,
                                                         memory_lies_idle};

void put(const char* name, const std::optional<double>& value, std::map<std::string, double>* numbers) {
  if (value && std::isfinite(*value)) (*numbers)[name] = *value;
}

}  // namespace

std::string suggestion(const Facts& facts) {
  if (ran_s(facts) < kLeastSeconds) return {};
  for (const auto& of : kSuggestions)
    if (std::string text = of(facts); !text.empty()) return text;
  return {};
}

std::string sentence(const Facts& facts) {
  std::vector<std::string> used, unmeasured;
  const int lacking = facts.gpus - facts.gpus_measured;
  if (facts.gpu_share && facts.gpus_measured > 0)
    used.push_back(percent_text(*facts.gpu_share) + " of " +
                   count_text(std::min(facts.gpus_measured, facts.gpus), "GPU"));
  if (facts.gpus > 0 && (lacking > 0 || !facts.gpu_share))
    unmeasured.push_back(facts.gpu_share && facts.gpus_measured > 0 ? count_text(lacking, "other GPU")
                                                                    : count_text(facts.gpus, "GPU"));
  if (facts.cpus_used)
    used.push_back(cpus_text(facts));
  else
    unmeasured.emplace_back("CPUs");
  if (facts.memory)
    used.push_back(memory_text(facts));
  else
    unmeasured.emplace_back("memory");
  std::string text = used.empty() ? "" : "used " + join(used, ", ");
  if (!unmeasured.empty()) text += (text.empty() ? "" : "; ") + std::string("not measured: ") + listed(unmeasured);
  if (saving_share(facts) >= 0.01) text += "; " + percent_text(saving_share(facts)) + " of the time saving";
  const std::string hint = suggestion(facts);
  return hint.empty() ? text : text + ": " + hint;
}

std::map<std::string, double> learner_numbers(const Facts& facts) {
  std::map<std::string, double> all;
  put("gpu_share", facts.gpu_share, &all);
  put("gpu_sm_share", facts.sm_share, &all);
  put("gpu_joules", facts.joules, &all);
  put("gpu_memory_bytes", facts.gpu_memory, &all);
  put("cpu_seconds", facts.cpu_seconds, &all);
  put("cpus_used", facts.cpus_used, &all);
  put("most_cpus_used", facts.most_cpus_used, &all);
  put("memory_bytes", facts.memory, &all);
  put("read_bytes", facts.read, &all);
  put("written_bytes", facts.written, &all);
  return all;
}

std::map<std::string, double> numbers(const Facts& facts) {
  std::map<std::string, double> all = learner_numbers(facts);
  all["gpus"] = facts.gpus;
  all["gpus_measured"] = facts.gpus_measured;
  if (facts.cpus > 0) all["cpus"] = facts.cpus;
  put("memory_asked_bytes", facts.memory_asked, &all);
  for (size_t i = 0; i < kPhases; ++i) {
    const std::string name = phase_name(static_cast<Phase>(i));
    all[name + "_s"] = facts.seconds[i];
    put(("gpu_share_" + name).c_str(), facts.gpu_share_in[i], &all);
    put(("cpus_used_" + name).c_str(), facts.cpus_used_in[i], &all);
  }
  return all;
}

}  // namespace dl::use
