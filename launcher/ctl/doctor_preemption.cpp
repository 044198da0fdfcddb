// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "common/base/parse.h"
#include "launcher/ctl/doctor_judge.h"
#include "launcher/slurm_cli/records.h"

namespace dl::ctl::doctor {
namespace {

// A tier as Slurm has it: a partition or a QOS.
struct TierInSlurm {
  bool there = false;
  std::string what;  // "partition 'borrow'"
  std::string name;
  bool qos = false;
  std::string mode;  // PreemptMode, in capitals; a QOS without one has the cluster's
  int64_t grace_s = 0;
  int64_t priority = 0;  // of a partition
  std::string preempts;  // of a QOS: the names of others
};

std::string capitals(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

TierInSlurm tier_in_slurm(const Facts& facts, const TierTarget& target) {
  TierInSlurm tier;
  tier.qos = !target.qos.empty();
  tier.name = tier.qos ? target.qos : target.partition;
  tier.what = fmt::format("{} '{}'", tier.qos ? "QOS" : "partition", tier.name);
  const std::string cluster = capitals(slurm_setting(facts, "PreemptMode"));
  if (!tier.qos) {
    for (const slurm_cli::Record& row : slurm_cli::parse_records(facts.partitions, "PartitionName")) {
      if (row.value("PartitionName") != tier.name) continue;
      tier.there = true;
      tier.mode = capitals(row.value("PreemptMode"));
      tier.grace_s = slurm_seconds(row.value("GraceTime")).value_or(0);
      tier.priority = std::strtoll(row.value("PriorityTier").c_str(), nullptr, 10);
    }
  }
  for (const std::string& line : split(facts.qos, '\n')) {
    const std::vector<std::string> field = split(line, '|');
    if (!tier.qos || field.size() != 4 || field[0] != tier.name) continue;
    tier.there = true;
    tier.preempts = field[1];
    tier.mode = capitals(field[2]);
    tier.grace_s = slurm_seconds(field[3]).value_or(0);
  }
  if (tier.mode.empty() || tier.mode == "CLUSTER") tier.mode = cluster;
  return tier;
}

// Whether Slurm itself takes GPUs of the borrow tier for the other one.
bool slurm_preempts(const std::string& type, const TierInSlurm& owner, const TierInSlurm& borrow) {
  if (type == "preempt/partition_prio") return !owner.qos && !borrow.qos && owner.priority > borrow.priority;
  return type == "preempt/qos" && owner.qos && borrow.qos && has_word(owner.preempts, borrow.name);
}

std::string place_of_tier(const Facts& facts, const TierInSlurm& tier) {
  return tier.qos ? "slurmdbd" : slurm_conf_place(facts, "PartitionName=" + tier.name + " ");
}

std::string change_of_tier(const TierInSlurm& tier, const std::string& key, const std::string& value) {
  if (tier.qos) return fmt::format("sacctmgr modify qos {} set {}={}", tier.name, key, value);
  return fmt::format("PartitionName={} ... {}={}", tier.name, key, value);
}

void judge_pair(const Facts& facts, const TierInSlurm& owner, const TierInSlurm& borrow, Findings* found) {
  const std::string type = slurm_setting(facts, "PreemptType");
  const std::string needed = borrow.qos ? "preempt/qos" : "preempt/partition_prio";
  if (type != needed) {
    found->push_back(
        wrong(fmt::format("PreemptType is {}: nothing gives way to jobs of {}; allowed for tiers that are {}: {}",
                          type.empty() ? "preempt/none" : type, owner.what, borrow.qos ? "QOS" : "partitions", needed),
              slurm_conf_place(facts, "PreemptType"), "PreemptType=" + needed));
    return;
  }
  if (!slurm_preempts(type, owner, borrow)) {
    if (borrow.qos)
      found->push_back(wrong(fmt::format("{} does not preempt {}; allowed: it does", owner.what, borrow.what),
                             "slurmdbd",
                             fmt::format("sacctmgr modify qos {} set preempt+={}", owner.name, borrow.name)));
    else
      found->push_back(wrong(
          fmt::format("{} has PriorityTier {}, {} has {}: the first does not preempt the other; allowed: a "
                      "higher one",
                      owner.what, owner.priority, borrow.what, borrow.priority),
          place_of_tier(facts, owner), change_of_tier(owner, "PriorityTier", std::to_string(borrow.priority + 1))));
  }
  if (borrow.mode.rfind("REQUEUE", 0) != 0) {
    const bool ends = borrow.mode == "CANCEL";
    found->push_back(
        wrong(fmt::format("{} has PreemptMode {}: its jobs are {}; allowed: REQUEUE", borrow.what,
                          borrow.mode.empty() ? "OFF" : borrow.mode,
                          ends                                   ? "ended for good"
                          : borrow.mode.rfind("SUSPEND", 0) == 0 ? "stopped in place, with their GPUs' memory in use"
                                                                 : "never preempted"),
              place_of_tier(facts, borrow), change_of_tier(borrow, "PreemptMode", "REQUEUE")));
  }
  if (borrow.grace_s <= 0)
    found->push_back(
        wrong(fmt::format("{} has no GraceTime: its jobs are stopped at once and cannot save; allowed: the seconds "
                          "that a checkpoint takes",
                          borrow.what),
              place_of_tier(facts, borrow), change_of_tier(borrow, "GraceTime", "120")));
}

// What judge_requeue says of one number.
void judge_slurmd_timeout(const Facts& facts, Findings* found) {
  constexpr int64_t kLong = 600;
  const auto timeout = slurm_seconds(slurm_setting(facts, "SlurmdTimeout"));
  if (!timeout || (*timeout > 0 && *timeout <= kLong)) return;
  const std::string place = slurm_conf_place(facts, "SlurmdTimeout");
  if (*timeout <= 0)
    found->push_back(
        wrong("SlurmdTimeout is 0: Slurm never gives up a lost node, so a job that lost one keeps it; allowed: 60 to "
              "600 seconds",
              place, "SlurmdTimeout=300"));
  else
    found->push_back(
        note(fmt::format("SlurmdTimeout is {} s: a job with a lost node holds it for so long; allowed: up to {} s",
                         *timeout, kLong),
             place, "SlurmdTimeout=300"));
}

}  // namespace

Findings judge_preemption(const Facts& facts) {
  const SiteConfig& site = *facts.site;
  const bool owner_set = !site.guaranteed.qos.empty() || !site.guaranteed.partition.empty();
  const bool borrow_set = !site.borrow.qos.empty() || !site.borrow.partition.empty();
  if (!owner_set || !borrow_set)
    return {site.tenants.empty() ? note("dl.toml does not name both tiers, so no job gives way to another one",
                                        facts.site_file.path, "[tiers.guaranteed] and [tiers.borrow]")
                                 : ok("dlpolicyd takes lent GPUs back; Slurm need not know the tiers")};
  const TierInSlurm owner = tier_in_slurm(facts, site.guaranteed), borrow = tier_in_slurm(facts, site.borrow);
  if (!owner.there || !borrow.there)
    return {note(fmt::format("not looked at, since Slurm does not show {}", owner.there ? borrow.what : owner.what))};
  const std::string type = slurm_setting(facts, "PreemptType");
  Findings found;
  if (site.tenants.empty())
    judge_pair(facts, owner, borrow, &found);
  else if (owner.name != borrow.name && slurm_preempts(type, owner, borrow))
    found.push_back(
        note(fmt::format("{} preempts {} by Slurm's own rules ({}), which chooses victims at once, beside dlpolicyd; "
                         "allowed: neither preempts the other (dlpolicyd(8), SLURM'S OWN PREEMPTION)",
                         owner.what, borrow.what, type),
             place_of_tier(facts, borrow),
             borrow.qos ? fmt::format("sacctmgr modify qos {} set preempt-={}", owner.name, borrow.name)
                        : change_of_tier(borrow, "PreemptMode", "OFF")));
  if (found.empty())
    found.push_back(ok(site.tenants.empty()
                           ? fmt::format("{} preempts {}, whose jobs go back into the queue", owner.what, borrow.what)
                           : "dlpolicyd alone chooses who gives way"));
  return found;
}

Findings judge_grace(const Facts& facts) {
  const SiteConfig& site = *facts.site;
  SeenSave longest;
  for (const SeenSave& save : facts.saves)
    if (save.seconds > longest.seconds) longest = save;
  const TierInSlurm borrow = tier_in_slurm(facts, site.borrow);
  struct Grace {
    std::string what, place, line;
    int64_t seconds;
  };
  std::vector<Grace> graces;
  const auto enough = std::to_string(static_cast<int64_t>(longest.seconds * 2) + 1);
  if (borrow.there && borrow.grace_s > 0)
    graces.push_back({"GraceTime of " + borrow.what, place_of_tier(facts, borrow),
                      change_of_tier(borrow, "GraceTime", enough), borrow.grace_s});
  if (!site.tenants.empty())
    graces.push_back({"[quota] grace of dl.toml", site_place(facts, "[quota]"), "grace = \"" + enough + "s\"",
                      site.quota.grace.count()});
  if (graces.empty()) return {ok("no job is asked to give way within a time")};
  std::string all;
  for (const Grace& grace : graces)
    all += fmt::format("{}{} is {} s", all.empty() ? "" : ", ", grace.what, grace.seconds);
  if (longest.seconds <= 0) return {ok(all + "; no job that runs has told yet how long its saves take")};
  Findings found;
  for (const Grace& grace : graces)
    if (longest.seconds > static_cast<double>(grace.seconds))
      found.push_back(
          wrong(fmt::format("{} is {} s, and the saves of job {} take {:.1f} s, so it would lose what it did since its "
                            "last one; allowed: more than the longest save",
                            grace.what, grace.seconds, longest.job, longest.seconds),
                grace.place, grace.line));
  if (found.empty())
    found.push_back(ok(fmt::format("{}; the longest save of a job that runs takes {:.1f} s (job {})", all,
                                   longest.seconds, longest.job)));
  return found;
}

Findings judge_requeue(const Facts& facts) {
  Findings found;
  if (slurm_setting(facts, "JobRequeue") == "0")
    found.push_back(
        note("JobRequeue is 0: jobs without --dl-* flags are ended where they would go back into the queue, also when "
             "lent GPUs are taken back; allowed: 1",
             slurm_conf_place(facts, "JobRequeue"), "JobRequeue=1"));
  const auto kill_wait = slurm_seconds(slurm_setting(facts, "KillWait"));
  if (kill_wait && *kill_wait < 5)
    found.push_back(
        note(fmt::format("KillWait is {} s: at its time limit a job is killed before dlrun has told its learners; "
                         "allowed: 10 to 120 seconds",
                         *kill_wait),
             slurm_conf_place(facts, "KillWait"), "KillWait=30"));
  const std::string over = slurm_setting(facts, "OverTimeLimit");
  if (const auto seconds = slurm_seconds(over); seconds && *seconds < 0)
    found.push_back(note("OverTimeLimit is UNLIMITED: time limits end no job", slurm_conf_place(facts, "OverTimeLimit"),
                         "OverTimeLimit=0"));
  judge_slurmd_timeout(facts, &found);
  if (const auto size = parse_int(slurm_setting(facts, "MaxArraySize"), 0, INT32_MAX); size && *size <= 1)
    found.push_back(
        note(fmt::format("MaxArraySize is {}: there are no job arrays; allowed: 1001, Slurm's default", *size),
             slurm_conf_place(facts, "MaxArraySize"), "MaxArraySize=1001"));
  if (has_word(slurm_setting(facts, "SchedulerParameters"), "disable_job_shrink"))
    found.push_back(
        note("SchedulerParameters has disable_job_shrink: a job cannot go on on fewer nodes when it has lost one, and "
             "waits for others in the queue; allowed: without it",
             slurm_conf_place(facts, "SchedulerParameters"), "SchedulerParameters=... (without disable_job_shrink)"));
  if (found.empty())
    found.push_back(ok(fmt::format("JobRequeue is 1, KillWait {}, SlurmdTimeout {}", slurm_setting(facts, "KillWait"),
                                   slurm_setting(facts, "SlurmdTimeout"))));
  return found;
}

}  // namespace dl::ctl::doctor
