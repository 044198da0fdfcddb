// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/wait_reason.h"

#include <algorithm>

namespace dl::ctl {
namespace {

// The reasons in Slurm's src/common/job_state_reason.c (up to 23.02 job_reason_string() in slurm_protocol_defs.c), and
// the texts that the scheduler sets in addition.
constexpr ReasonRow kReasons[] = {
    {"Priority", "jobs of higher priority are ahead", About::kQueue, false},
    {"Resources", "waiting for free nodes or GPUs", About::kRoom, false},
    {"Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
     "nodes that it needs are down, drained, or kept for a partition of higher priority", About::kNodes, false},
    {"ReqNodeNotAvail", "a node it asks for is down or reserved", About::kNodes, false},
    {"NodeDown", "a node that it needs is down", About::kNodes, false},
    {"FrontEndDown", "no front end node is up", About::kNothing, false},
    {"BadConstraints", "no node has what it asks for", About::kSize, true,
     "see sinfo -N -o '%N %c %m %G %f', and change what it asks for"},
    {"PartitionNodeLimit", "it asks for more nodes than its partition has or allows", About::kSize, true,
     "scontrol update JobId=%J NumNodes=N, or scancel %J and submit it smaller"},
    {"PartitionConfig", "its partition is not configured for what it asks for", About::kSize, true,
     "see scontrol show partition, and change what it asks for, or scontrol update JobId=%J Partition=NAME"},
    {"PartitionTimeLimit", "its time limit is longer than the partition's", About::kTime, true,
     "scontrol update JobId=%J TimeLimit=TIME"},
    {"PartitionDown", "its partition is down", About::kNothing, false,
     "scontrol update JobId=%J Partition=NAME moves it"},
    {"PartitionInactive", "its partition is inactive", About::kNothing, false,
     "scontrol update JobId=%J Partition=NAME moves it"},
    {"JobHeldUser", "held by its user", About::kHeld, true, "scontrol release %J lets it go"},
    {"JobHeldAdmin", "held by an administrator", About::kHeld, true,
     "ask the administrators; only they can release it"},
    {"JobHoldMaxRequeue", "it was put back as often as the site allows (MaxBatchRequeue), and is held", About::kHeld,
     true, "see why it was put back, then scontrol release %J"},
    {"launch failed requeued held", "it could not be started, and is held", About::kHeld, true,
     "its output and the node's slurmd.log say why; then scontrol release %J"},
    {"job requeued in held state", "it was put back, and is held", About::kHeld, true,
     "scontrol release %J lets it go"},
    {"JobLaunchFailure", "it could not be started", About::kNothing, false, "scontrol release %J tries again"},
    {"BeginTime", "its start time has not come", About::kBegin, false, "scontrol update JobId=%J StartTime=now"},
    {"Dependency", "waiting for another job", About::kDependency, false,
     "scontrol update JobId=%J Dependency= drops it"},
    {"DependencyNeverSatisfied", "the job it depends on failed", About::kDependency, true,
     "scontrol update JobId=%J Dependency= lets it start; else scancel %J"},
    {"Reservation", "waiting for its reservation", About::kReservation, false},
    {"ReservationDeleted", "its reservation is gone", About::kReservation, true,
     "scontrol update JobId=%J ReservationName=NAME, or scancel %J"},
    {"Licenses", "its quota is used up, or licences that it asks for are in use", About::kLicences, false},
    {"JobArrayTaskLimit", "as many elements of its array run as the array allows", About::kArray, false,
     "scontrol update JobId=%J ArrayTaskThrottle=N allows more"},
    {"Cleaning", "Slurm is cleaning up after its last run", About::kNothing, false},
    {"Prolog", "the prolog of its nodes runs", About::kNothing, false},
    {"SchedDefer", "the site starts no job at its submission (defer): the next round of the scheduler looks at it",
     About::kNothing, false},
    {"DeadLine", "it cannot end before its deadline", About::kTime, true, "scontrol update JobId=%J Deadline=TIME"},
    {"InvalidAccount", "its account is not known any more", About::kNothing, true,
     "scontrol update JobId=%J Account=NAME"},
    {"InvalidQOS", "its QOS is not known any more", About::kNothing, true, "scontrol update JobId=%J QOS=NAME"},
    {"AccountNotAllowed", "its partition does not take its account", About::kNothing, true,
     "scontrol update JobId=%J Partition=NAME (or Account=NAME)"},
    {"QOSNotAllowed", "its partition or account does not take its QOS", About::kNothing, true,
     "scontrol update JobId=%J QOS=NAME (or Partition=NAME)"},
    {"AccountingPolicy", "a limit of its user, account or QOS", About::kNothing, false},
    {"AssociationJobLimit", "its user or account has as many jobs as it may", About::kLimit, false},
    {"AssociationResourceLimit", "its user or account uses as much as it may", About::kLimit, false},
    {"AssociationTimeLimit", "its user or account has used the time that it has", About::kLimit, false},
    {"QOSJobLimit", "its QOS has as many jobs as it may", About::kLimit, false},
    {"QOSResourceLimit", "its QOS uses as much as it may", About::kLimit, false},
    {"QOSTimeLimit", "its QOS has used the time that it has", About::kLimit, false},
    {"QOSUsageThreshold", "its account has used so much that its QOS takes no more of its jobs", About::kLimit, false},
    {"MaxMemPerLimit", "it asks for more memory on a node than the site allows", About::kSize, true,
     "scontrol update JobId=%J MinMemoryNode=MB"},
    {"BurstBufferResources", "waiting for room in the burst buffer", About::kNothing, false},
    {"BurstBufferStageIn", "its data are being copied into the burst buffer", About::kNothing, false},
    {"BurstBufferOperation", "the burst buffer is at work for it", About::kNothing, false},
    {"MaxBBPerAccount", "its account has as much of the burst buffer as it may", About::kNothing, false},
    {"PowerNotAvail", "there is not enough power", About::kNothing, false},
    {"PowerReserved", "the power is kept for a reservation", About::kNothing, false},
    {"FedJobLock", "another cluster of the federation is looking at it", About::kNothing, false},
    {"InactiveLimit", "it was inactive for too long", About::kNothing, false},
    {"SystemFailure", "Slurm failed", About::kNothing, false, "ask the administrators"},
    {"BootFailed", "a node did not boot", About::kNothing, false, "ask the administrators"},
    {"OutOfMemory", "it ran out of memory", About::kNothing, false},
    {"TimeLimit", "it reached its time limit", About::kNothing, false},
    {"NonZeroExitCode", "its script ended with a failure", About::kNothing, false},
    {"RaisedSignal", "its script was ended by a signal", About::kNothing, false},
};

struct Part {
  const char* name;
  const char* tres;
  const char* words;
};
// What a limit counts. The longest name that matches is taken.
constexpr Part kParts[] = {
    {"SubmitJobs", "", "jobs in the queue or running"},
    {"SubmitJob", "", "jobs in the queue or running"},
    {"JobsAccrue", "", "jobs that gain priority by waiting"},
    {"Jobs", "", "running jobs"},
    {"WallDuration", "", "minutes of time limit"},
    {"Wall", "", "minutes of running"},
    {"Cpu", "cpu", "CPUs"},
    {"CPU", "cpu", "CPUs"},
    {"GRES", "gres/gpu", "GPUs (or other GRES)"},
    {"Memory", "mem", "MB of memory"},
    {"Mem", "mem", "MB of memory"},
    {"Node", "node", "nodes"},
    {"License", "license/", "licences"},
    {"Energy", "energy", "energy"},
    {"BB", "bb/", "of burst buffer"},
    {"Billing", "billing", "billing units"},
    {"Unknown", "", "a resource of the site's"},
};

bool eat(std::string* text, std::string_view word) {
  if (text->rfind(word, 0) != 0) return false;
  text->erase(0, word.size());
  return true;
}

// The reason with blanks instead of underscores, as squeue prints it.
std::string plain(std::string reason) {
  std::replace(reason.begin(), reason.end(), '_', ' ');
  while (!reason.empty() && reason.back() == ' ') reason.pop_back();
  return reason;
}

}  // namespace

const ReasonRow* find_reason(const std::string& reason) {
  const std::string text = plain(reason);
  for (const ReasonRow& row : kReasons)
    if (text == row.name) return &row;
  for (const ReasonRow& row : kReasons)
    if (text.rfind(std::string(row.name) + ",", 0) == 0 || text.rfind(std::string(row.name) + "(", 0) == 0) return &row;
  return nullptr;
}

std::optional<LimitReason> parse_limit_reason(const std::string& reason) {
  std::string rest = reason;
  LimitReason limit;
  if (eat(&rest, "QOS"))
    limit.qos = true;
  else if (!eat(&rest, "Assoc"))
    return std::nullopt;
  if (eat(&rest, "Grp"))
    limit.group = true;
  else if (eat(&rest, "Min"))
    limit.minimum = true;
  else if (!eat(&rest, "Max"))
    return std::nullopt;
  const Part* part = nullptr;
  for (const Part& row : kParts)
    if (part == nullptr && eat(&rest, row.name)) part = &row;
  if (part == nullptr) return std::nullopt;
  const std::string name = part->name;
  std::string words = part->words;
  std::string unit;
  if (eat(&rest, "RunMinutes")) {
    unit = "RunMins";
    words = "minutes of " + words + " that running jobs may still use";
  } else if (eat(&rest, "Minutes") || eat(&rest, "Mins")) {
    unit = "Mins";
    words = "minutes of " + words;
  }
  std::string per;
  if (eat(&rest, "PerJob")) per = "PJ";
  if (eat(&rest, "PerUser")) per = "PU";
  if (eat(&rest, "PerAccount") || eat(&rest, "PerAcct")) per = "PA";
  if (eat(&rest, "PerNode")) per = "PN";
  // For example "QOSMaxWallDurationPerJobLimit", "AssocMaxJobsLimit", "QOSMinCpuNotSatisfied".
  if (!rest.empty() && rest != "Limit" && rest != "NotSatisfied") return std::nullopt;
  if (name == "WallDuration" && per.empty()) per = "PJ";
  limit.per_job = per == "PJ" || per == "PN" || limit.minimum;
  if (limit.minimum && per.empty()) per = "PJ";
  if (per == "PJ") limit.per = "of each job";
  if (per == "PU") limit.per = "of each user";
  if (per == "PA") limit.per = "of each account";
  if (per == "PN") limit.per = "on each node";
  limit.tres = part->tres;
  limit.what = words;
  const std::string head = limit.group ? "Grp" : limit.minimum ? "Min" : "Max";
  if (!limit.tres.empty() || name == "Unknown")
    limit.key = head + "TRES" + unit + per;
  else if (name == "SubmitJob" || name == "SubmitJobs")
    limit.key = head + "SubmitJobs" + per;
  else if (name == "Wall" || name == "WallDuration")
    limit.key = head + "Wall" + per;
  else
    limit.key = head + name + per;
  return limit;
}

bool is_quota_reason(const std::string& reason) {
  if (reason == "Licenses") return true;
  const auto limit = parse_limit_reason(reason);
  if (limit) return !limit->minimum;
  const bool whose = reason.rfind("QOS", 0) == 0 || reason.rfind("Assoc", 0) == 0;
  return whose && reason.find("Limit") != std::string::npos;
}

std::string explain_reason(const std::string& reason) {
  if (reason.empty() || reason == "None") return "not looked at by the scheduler yet";
  const std::string in_parentheses = " (" + plain(reason) + ")";
  if (const ReasonRow* row = find_reason(reason)) return row->words + in_parentheses;
  if (const auto limit = parse_limit_reason(reason)) {
    if (limit->minimum)
      return "it asks for less than its " + std::string(limit->qos ? "QOS" : "account") + " wants" + in_parentheses;
    if (limit->per_job) return "it asks for more than one job may have" + in_parentheses;
    return "the quota is used up" + in_parentheses;
  }
  return plain(reason);
}

}  // namespace dl::ctl
