// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/wait_why.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/count.h"
#include "common/base/hostlist.h"
#include "common/base/parse.h"
#include "launcher/ctl/text.h"
#include "launcher/ctl/wait_asked.h"
#include "launcher/ctl/wait_reason.h"
#include "launcher/ctl/wait_texts.h"
#include "launcher/slurm_cli/records.h"
#include "launcher/slurm_cli/slurm_cli.h"
#include "slurm-plugin/policy/job_label.h"
#include "slurm-plugin/policy/tokens.h"

namespace dl::ctl {
namespace {

constexpr size_t kNamed = 3;  // how many jobs or nodes a line names; the others are counted

std::string of(const slurm_cli::JobText& job, std::string_view key) {
  return slurm_cli::given(job.value(key));
}

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kNamed) text += fmt::format(", and {} more", names.size() - kNamed);
  return text;
}

std::string when(int64_t at_s, int64_t now_s) {
  const std::string clock = clock_text(at_s * 1000, now_s * 1000);
  return at_s > now_s ? fmt::format("{} (in {})", clock, age_text((at_s - now_s) * 1000)) : clock;
}

// A number with the words of a limit ("running jobs", "minutes of CPUs ..."), in the singular for 1.
std::string counted(int64_t count, std::string words) {
  if (count == 1)
    for (const std::string_view plural : {"minutes", "jobs", "CPUs", "GPUs", "nodes", "licences", "units"})
      if (const size_t at = words.find(plural); at != std::string::npos) {
        words.erase(at + plural.size() - 1, 1);
        break;
      }
  return std::to_string(count) + " " + words;
}

std::string job_line(const QueueLine& job) {
  Amounts amounts;
  amounts.nodes = job.nodes;
  amounts.gpus = job.gpus;
  if (job.gpus == 0) amounts.cpus = job.cpus;
  return fmt::format("{} of {} ({})", printable(job.id), printable(job.user), amounts_text(amounts, false));
}

class Answering {
 public:
  explicit Answering(const WaitTexts& texts)
      : texts_(texts),
        id_(slurm_cli::own_id(texts.job)),
        reason_(texts.job.value("Reason")),
        asked_(asked_of(texts.job)),
        queue_(parse_queue(texts.queue, texts.queue_gpus)),
        room_(room_of(parse_nodes(texts.nodes), asked_.partition)) {}

  WaitAnswer run() {
    const std::string state = texts_.job.value("JobState");
    answer_.json["slurm_state"] = state;
    answer_.json["slurm_reason"] = reason_;
    if (state != "PENDING") {
      not_waiting(state);
    } else {
      waiting();
    }
    answer_.json["can_ever_run"] = answer_.can_ever_run;
    answer_.json["lines"] = answer_.lines;
    if (!answer_.advice.empty()) answer_.json["advice"] = answer_.advice;
    return std::move(answer_);
  }

 private:
  void say(std::string line) { answer_.lines.push_back(std::move(line)); }

  void not_waiting(const std::string& state) {
    const auto time = [&](const char* key) { return slurm_cli::parse_slurm_time(texts_.job.value(key)); };
    const auto at = [&](const std::optional<int64_t>& seconds) {
      return seconds ? " " + clock_text(*seconds * 1000, texts_.now_s * 1000) : std::string();
    };
    const std::string nodes = of(texts_.job, "NodeList");
    if (state == "RUNNING" || state == "COMPLETING" || state == "CONFIGURING" || state == "SUSPENDED") {
      answer_.sentence = fmt::format("job {} does not wait: it is {}{} since{}", id_, state,
                                     nodes.empty() ? "" : " on " + printable(nodes, 200), at(time("StartTime")));
      if (const auto end = time("EndTime"); end && state == "RUNNING")
        say("its time limit ends it at " + when(*end, texts_.now_s));
      return;
    }
    answer_.sentence = fmt::format("job {} does not wait: it has ended, {}{}{}", id_, state,
                                   time("EndTime") ? " at" : "", at(time("EndTime")));
    const auto label = policy::parse_label(of(texts_.job, "AdminComment"));
    if (label && label->dropped)
      answer_.sentence = fmt::format("job {} does not wait: dlpolicyd dropped it at{}: {}", id_,
                                     at(label->dropped->at_s), policy::dropped_text(*label->dropped));
    if (const std::string code = of(texts_.job, "ExitCode"); !code.empty() && code != "0:0")
      say("exit code " + code.substr(0, code.find(':')) +
          (code.find(":0") == std::string::npos ? ", signal " + code.substr(code.find(':') + 1) : "") +
          "; dlctl status " + id_ + " knows more, if it ran dlrun");
  }

  void waiting() {
    const ReasonRow* row = find_reason(reason_);
    const auto limit = parse_limit_reason(reason_);
    const About about = row != nullptr ? row->about : limit ? About::kLimit : About::kNothing;
    answer_.sentence = fmt::format("job {} waits: {}", id_, explain_reason(reason_));
    if (texts_.paused && about == About::kHeld)
      answer_.sentence =
          fmt::format("job {} waits: dlctl pause has saved it and holds it ({})", id_, printable(reason_));
    if (row != nullptr) {
      answer_.can_ever_run = !row->for_ever;
      answer_.advice = texts_.paused && about == About::kHeld ? "dlctl resume %J lets it go on" : row->advice;
    } else if (limit && limit->per_job) {
      answer_.can_ever_run = false;
      answer_.advice = fmt::format("scancel %J, and submit it with {}, or with another --{}",
                                   limit->minimum ? "more" : "less", limit->qos ? "qos" : "account");
    }
    if (about == About::kQueue || about == About::kRoom || about == About::kSize || about == About::kNodes)
      more_gpus_than_there_are();
    switch (about) {
      case About::kQueue:
        ahead();
        room(false);
        break;
      case About::kRoom:
        room(true);
        holders();
        break;
      case About::kSize:
        size();
        break;
      case About::kTime:
        time_limit();
        break;
      case About::kBegin:
        begin();
        break;
      case About::kDependency:
        dependency();
        break;
      case About::kNodes:
        nodes();
        room(false);
        break;
      case About::kReservation:
        reservation();
        break;
      case About::kLicences:
        licences();
        break;
      case About::kArray:
        array();
        break;
      case About::kLimit:
        limits(limit);
        break;
      case About::kHeld:
      case About::kNothing:
        break;
    }
    priority();
    if (!texts_.put_back.empty()) say("it was put back into the queue: " + printable(texts_.put_back, 300));
    if (about == About::kQueue || about == About::kRoom || about == About::kNodes) estimate();
    if (const size_t at = answer_.advice.find("%J"); at != std::string::npos) {
      std::string* advice = &answer_.advice;
      for (size_t next = at; next != std::string::npos; next = advice->find("%J", next)) advice->replace(next, 2, id_);
    }
  }

  void ahead() {
    std::vector<std::string> names;
    Json list = Json::array();
    const auto mine = parse_int(of(texts_.job, "Priority"), 0, INT64_MAX);
    for (const QueueLine& job : queue_) {
      if (job.id == id_) break;
      const ReasonRow* its = find_reason(job.reason);
      if (job.state != "PENDING" || its == nullptr) continue;
      if (its->about != About::kQueue && its->about != About::kRoom && its->about != About::kNodes) continue;
      if (mine && job.priority < *mine) continue;
      names.push_back(job_line(job));
      list.push_back(
          {{"job", job.id}, {"user", job.user}, {"priority", job.priority}, {"nodes", job.nodes}, {"gpus", job.gpus}});
    }
    answer_.json["ahead"] = list;
    if (names.empty()) return;
    say(fmt::format("{} {} ahead of it in partition '{}', with at least its priority: {}", names.size(),
                    names.size() == 1 ? "job is" : "jobs are", printable(asked_.partition), names_text(names)));
  }

  // If AccountingStorageTRES does not name GPUs, Slurm accepts such a job, and reports too many nodes or lets it wait.
  void more_gpus_than_there_are() {
    if (room_.nodes == 0 || asked_.amounts.gpus <= room_.gpus_in_all) return;
    answer_.can_ever_run = false;
    say(fmt::format("it asks for {}, and partition '{}' has {}, so it never starts there",
                    count_text(asked_.amounts.gpus, "GPU"), printable(asked_.partition),
                    room_.gpus_in_all == 0 ? "none" : std::to_string(room_.gpus_in_all)));
    answer_.advice = room_.gpus_in_all == 0
                         ? "scancel %J, and submit it to another partition (-p)"
                         : fmt::format("scancel %J, and submit it with at most {}, or to another partition (-p)",
                                       count_text(room_.gpus_in_all, "GPU"));
  }

  // `short_of`: also tell what there is too little of.
  void room(bool short_of) {
    Json json = {{"nodes_asked", asked_.amounts.nodes},
                 {"cpus_asked", asked_.amounts.cpus},
                 {"gpus_asked", std::max<int64_t>(asked_.amounts.gpus, 0)},
                 {"nodes", room_.nodes},
                 {"usable_nodes", room_.usable},
                 {"idle_nodes", room_.idle},
                 {"cpus_free", room_.cpus_free},
                 {"gpus", room_.gpus},
                 {"gpus_free", room_.gpus_free}};
    answer_.json["room"] = std::move(json);
    if (room_.nodes == 0) return;
    const bool gpus = room_.gpus > 0 || asked_.amounts.gpus > 0;
    say(fmt::format("it asks for {}; free in partition '{}' are {}{} of {}, and {} of {} {} idle",
                    amounts_text(asked_.amounts, false), printable(asked_.partition),
                    gpus ? fmt::format("{} of {}, ", room_.gpus_free, count_text(room_.gpus, "GPU")) : "",
                    room_.cpus_free, count_text(room_.cpus, "CPU"), room_.idle, count_text(room_.nodes, "node"),
                    room_.idle == 1 ? "is" : "are"));
    if (!room_.out.empty()) say("not usable: " + names_text(room_.out));
    if (!short_of || !answer_.can_ever_run) return;
    if (asked_.amounts.gpus > room_.gpus || asked_.amounts.cpus > room_.cpus || asked_.amounts.nodes > room_.usable)
      say("that is more than the usable nodes of the partition have together, so it waits until nodes come back");
    else if (asked_.amounts.gpus <= room_.gpus_free && asked_.amounts.cpus <= room_.cpus_free)
      say(fmt::format(
          "the nodes together have as much free, but not each node what the job asks of it: the most that one node has "
          "free is {}{}; memory counts, too",
          count_text(room_.node_cpus_free, "CPU"), gpus ? " and " + count_text(room_.node_gpus_free, "GPU") : ""));
  }

  // The running jobs, in the order in which their time limits end them.
  void holders() {
    std::vector<const QueueLine*> running;
    for (const QueueLine& job : queue_)
      if (job.state == "RUNNING" && (asked_.amounts.gpus <= 0 || job.gpus > 0)) running.push_back(&job);
    std::stable_sort(running.begin(), running.end(), [](const QueueLine* a, const QueueLine* b) {
      return a->end_s.value_or(INT64_MAX) < b->end_s.value_or(INT64_MAX);
    });
    std::vector<std::string> names;
    Json list = Json::array();
    for (const QueueLine* job : running) {
      names.push_back(job_line(*job) +
                      (job->end_s ? " until " + clock_text(*job->end_s * 1000, texts_.now_s * 1000) : ""));
      list.push_back({{"job", job->id}, {"user", job->user}, {"gpus", job->gpus}, {"nodes", job->nodes}});
    }
    answer_.json["holders"] = list;
    if (!names.empty()) say(fmt::format("running there, by the end of their time limits: {}", names_text(names)));
  }

  void size() {
    const slurm_cli::Record partition(texts_.partition);
    const std::string most = partition.value("MaxNodes");
    say(fmt::format(
        "it asks for {}{}", amounts_text(asked_.amounts, true),
        of(texts_.job, "Features").empty() ? "" : ", and nodes with " + printable(of(texts_.job, "Features"))));
    if (room_.nodes > 0)
      say(fmt::format("partition '{}' has {} with at most {}{} each{}", printable(asked_.partition),
                      count_text(room_.nodes, "node"), count_text(room_.node_cpus, "CPU"),
                      room_.node_gpus > 0 ? " and " + count_text(room_.node_gpus, "GPU") : "",
                      most.empty() || most == "UNLIMITED"
                          ? ""
                          : fmt::format(", and allows {} node{} for a job", most, most == "1" ? "" : "s")));
    if (const std::string memory = partition.value("MaxMemPerNode"); !memory.empty() && memory != "UNLIMITED")
      say(fmt::format("it allows {} MB of memory on a node", memory));
  }

  void time_limit() {
    const slurm_cli::Record partition(texts_.partition);
    say(fmt::format("its time limit is {}; partition '{}' allows {}", of(texts_.job, "TimeLimit"),
                    printable(asked_.partition),
                    partition.value("MaxTime").empty() ? "?" : partition.value("MaxTime")));
    if (const std::string deadline = of(texts_.job, "Deadline"); !deadline.empty()) say("its deadline is " + deadline);
  }

  void begin() {
    for (const char* key : {"EligibleTime", "StartTime"})
      if (const auto at = slurm_cli::parse_slurm_time(texts_.job.value(key))) {
        say("it may start at " + when(*at, texts_.now_s));
        answer_.json["begin_s"] = *at;
        return;
      }
  }

  void dependency() {
    const std::string dependency = of(texts_.job, "Dependency");
    if (dependency.empty()) return;
    say("it depends on " + printable(dependency, 300));
    if (dependency.rfind("singleton", 0) == 0)
      say("singleton: no other job of this user with this name may run or be ahead of it");
    for (const std::string& id : dependency_ids(dependency)) {
      const auto found = std::find_if(queue_.begin(), queue_.end(), [&](const QueueLine& job) { return job.id == id; });
      if (found == queue_.end()) continue;
      say(fmt::format("job {} of {} is {}{}", id, printable(found->user), found->state,
                      found->state == "PENDING" ? fmt::format(" ({})", printable(found->reason)) : ""));
    }
  }

  void nodes() {
    if (const std::string asked = of(texts_.job, "ReqNodeList"); !asked.empty())
      say("it asks for " + printable(asked, 200));
    std::string named;
    if (const size_t at = reason_.find("UnavailableNodes:"); at != std::string::npos) named = reason_.substr(at + 17);
    const auto names = expand_hostlist(named);
    for (const NodeLine& node : parse_nodes(texts_.nodes)) {
      if (!names || std::find(names->begin(), names->end(), node.name) == names->end()) continue;
      say(fmt::format("{} is {}{}", printable(node.name), printable(node.state),
                      node.reason.empty() ? "" : " (" + printable(node.reason) + ")"));
      if (answer_.lines.size() > 2 * kNamed) break;
    }
    if (reason_.find("reserved") != std::string::npos || reason_.find("Reserved") != std::string::npos)
      say("a reservation of the site's begins before it could end: a shorter --time may let it start; scontrol show "
          "reservation");
  }

  void reservation() {
    const slurm_cli::Record words(texts_.reservation);
    const std::string name = of(texts_.job, "Reservation");
    if (name.empty()) return;
    const auto start = slurm_cli::parse_slurm_time(words.value("StartTime"));
    say(fmt::format("its reservation is '{}'{}{}", printable(name),
                    start ? ", which begins at " + when(*start, texts_.now_s) : "",
                    words.value("Nodes").empty() ? "" : ", on " + printable(words.value("Nodes"), 200)));
  }

  void licences() {
    const std::string asked = of(texts_.job, "Licenses");
    answer_.sentence = fmt::format("job {} waits: {} (Licenses)", id_,
                                   policy::names_token(asked) && policy::without_tokens(asked).empty()
                                       ? "the quota is used up"
                                       : "not all licences that it asks for are free");
    say("it asks for " + printable(asked, 200));
    for (const slurm_cli::Licence& licence : slurm_cli::parse_licences(texts_.licences))
      for (const std::string& item : split(asked, ','))
        if (item.substr(0, item.find_first_of(":=@")) == licence.name.substr(0, licence.name.find('@')))
          say(fmt::format("of '{}' there are {}, of which {} {} free", printable(licence.name), licence.total,
                          licence.free, licence.free == 1 ? "is" : "are"));
  }

  void array() {
    const std::string array = of(texts_.job, "ArrayJobId"), most = of(texts_.job, "ArrayTaskThrottle");
    const auto running = std::count_if(queue_.begin(), queue_.end(), [&](const QueueLine& job) {
      return job.state == "RUNNING" && slurm_cli::array_of(job.id) == array;
    });
    say(fmt::format("{} of its elements run{}{}", running, running == 1 ? "s" : "",
                    most.empty() ? "" : ", and " + most + " may"));
  }

  void limits(const std::optional<LimitReason>& limit) {
    const std::string& text = limit && limit->qos ? texts_.qos_limits : texts_.assoc_limits;
    if (!limit) return;
    const std::string user = of(texts_.job, "UserId");
    const size_t open = user.find('(');
    const std::string number = open == std::string::npos ? "" : user.substr(open + 1, user.find(')') - open - 1);
    Json list = Json::array();
    for (const Limit& found : parse_limits(text, limit->key, limit->tres, {number, of(texts_.job, "Account")})) {
      if (!concerns(found.whose, user.substr(0, open), limit->qos)) continue;
      say(fmt::format("the limit of {} is {}{}{}{}", found.whose, counted(found.limit, limit->what),
                      found.name.empty() ? "" : " '" + printable(found.name) + "'",
                      limit->per.empty() ? "" : " " + limit->per,
                      found.used < 0 ? "" : fmt::format("; {} {} used", found.used, found.used == 1 ? "is" : "are")));
      list.push_back({{"whose", found.whose}, {"limit", found.limit}, {"used", found.used}, {"of", limit->what}});
    }
    answer_.json["limits"] = list;
    if (list.empty())
      say(fmt::format("a limit of {} {}; scontrol show assoc_mgr shows it, if you may see it", limit->what,
                      limit->qos
                          ? "of its QOS '" + printable(of(texts_.job, "QOS")) + "'"
                          : "of its account '" + printable(of(texts_.job, "Account")) + "' or an account above it"));
    say(fmt::format("it asks for {}{}", amounts_text(asked_.amounts, true),
                    of(texts_.job, "TimeLimit").empty() ? "" : ", for " + of(texts_.job, "TimeLimit")));
  }

  // Whether a limit applies to this job. One of another user or QOS does not; one of an account above the job's own
  // may.
  bool concerns(const std::string& whose, const std::string& user, bool qos) const {
    if (qos) {
      const std::string partitions = slurm_cli::Record(texts_.partition).value("QoS");
      return whose == "QOS '" + of(texts_.job, "QOS") + "'" ||
             (!partitions.empty() && whose == "QOS '" + partitions + "'");
    }
    return whose.rfind("user ", 0) != 0 || whose.rfind("user '" + user + "' in ", 0) == 0;
  }

  void priority() {
    const std::string shown = of(texts_.job, "Priority");
    if (shown.empty() || shown == "0") return;
    answer_.json["priority"] = shown;
    std::string text = "its priority is " + shown;
    if (const auto priority = parse_priority(texts_.priority); priority && !priority->parts.empty()) {
      std::vector<std::string> parts;
      Json json = Json::object();
      for (const auto& [name, value] : priority->parts) {
        parts.push_back(fmt::format("{} {}", printable(name), value));
        json[name] = value;
      }
      text += ": " + join(parts, ", ");
      answer_.json["priority_parts"] = std::move(json);
    }
    say(text);
  }

  void estimate() {
    const auto start = slurm_cli::parse_slurm_time(texts_.job.value("StartTime"));
    answer_.json["start_estimate_s"] = start ? Json(*start) : Json(nullptr);
    if (start)
      say("Slurm expects it to start at " + when(*start, texts_.now_s) +
          ", if those that run now take their whole time limits and nothing of higher priority comes");
    else
      say("Slurm has no estimate of its start yet: the backfill scheduler has not come to it");
  }

  const WaitTexts& texts_;
  const std::string id_, reason_;
  const Asked asked_;
  const std::vector<QueueLine> queue_;
  const Room room_;
  WaitAnswer answer_;
};

}  // namespace

WaitAnswer explain_wait(const WaitTexts& texts) {
  return Answering(texts).run();
}

bool needs_limits(const slurm_cli::JobText& job) {
  const std::string& reason = job.value("Reason");
  const ReasonRow* row = find_reason(reason);
  return parse_limit_reason(reason).has_value() || (row != nullptr && row->about == About::kLimit);
}

std::vector<std::string> dependency_ids(const std::string& dependency) {
  std::vector<std::string> ids;
  std::string digits;
  // Ids follow a colon, as in "afterok:12(unfulfilled):13_3,afterany:14+5(failed)".
  for (size_t i = 0; i < dependency.size(); ++i) {
    if (dependency[i] != ':') continue;
    const size_t end = dependency.find_first_not_of("0123456789_", i + 1);
    const std::string id = dependency.substr(i + 1, (end == std::string::npos ? dependency.size() : end) - i - 1);
    if (!id.empty() && id.front() != '_') ids.push_back(id);
  }
  return ids;
}

}  // namespace dl::ctl
