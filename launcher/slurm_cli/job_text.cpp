// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm_cli/job_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

#include "common/base/parse.h"

namespace dl::slurm_cli {
namespace {

constexpr size_t kMaxText = 16UL << 20;
constexpr std::string_view kIndent = "   ";

// Lines that may come between the name of a job and its owner.
constexpr std::array<std::string_view, 2> kNumbers = {"SLUID", "HetJobIdSet"};
// Its blanks at the end are its own; behind comments scontrol writes one.
constexpr std::string_view kWorkDir = "WorkDir";
// From Command on, in scontrol's order: texts that users and admins write.
constexpr std::array<std::string_view, 10> kTexts = {"Command",       "SubmitLine", "WorkDir", "AdminComment",
                                                     "SystemComment", "Comment",    "Extra",   "StdErr",
                                                     "StdIn",         "StdOut"};
// Keys that Slurm prints after those texts; each of them ends the text before it. After StdOut, which batch jobs have,
// any key does.
constexpr std::array<std::string_view, 30> kBehindTexts = {"Governor",
                                                           "SegmentSize",
                                                           "Switches",
                                                           "BurstBuffer",
                                                           "BurstBufferState",
                                                           "CPU_max_freq",
                                                           "CPU_min_freq",
                                                           "Power",
                                                           "GresAllowTaskSharing",
                                                           "GresEnforceBind",
                                                           "SpreadJob",
                                                           "ExpeditedRequeue",
                                                           "OOMKillStep",
                                                           "GresOneTaskPerSharing",
                                                           "KillOnInvalidDependent",
                                                           "CpusPerTres",
                                                           "MemPerTres",
                                                           "TresBind",
                                                           "KillOInInvalidDependent",
                                                           "TresFreq",
                                                           "TresPerJob",
                                                           "TresPerNode",
                                                           "TresPerSocket",
                                                           "TresPerTask",
                                                           "MailUser",
                                                           "NtasksPerTRES",
                                                           "ContainerType",
                                                           "Container",
                                                           "SELinuxContext",
                                                           "ResvPorts"};

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

template <size_t N>
bool holds(const std::array<std::string_view, N>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// KEY of a line "   KEY=VALUE"; empty if the line has another form.
std::string_view key_of(std::string_view line) {
  if (!starts_with(line, kIndent)) return {};
  line.remove_prefix(kIndent.size());
  const size_t end = line.find_first_of("= ");
  return end == std::string_view::npos || line[end] != '=' ? std::string_view() : line.substr(0, end);
}

std::string_view without_end(std::string_view text) {
  const size_t last = text.find_last_not_of(" \r");
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

class Reader {
 public:
  Result<JobText> read(const std::vector<std::string_view>& lines) {
    DL_TRY(read_first(lines.front()));
    for (size_t i = 1; i < lines.size(); ++i) DL_TRY(read_line(lines[i]));
    for (const char* key : {"UserId", "JobState"})
      if (job_.value(key).empty()) return bad(fmt::format("says no {}", key));
    return std::move(job_);
  }

 private:
  enum class Part { kOfName, kOfNumbers, kOfHead, kOfNetwork, kOfTexts, kOfEnd };

  Error bad(const std::string& what) const {
    return Error{Errc::kInvalid, fmt::format("scontrol show job: the text about job '{}' {}",
                                             printable(job_.value("JobId"), 40), what)};
  }

  Status put(std::string_view key, std::string_view value) {
    const auto [at, is_new] = job_.values.emplace(key, value);
    if (!is_new) return bad(fmt::format("says {} twice; allowed: once", printable(std::string(key), 40)));
    last_ = &at->second;
    return {};
  }

  // Reads words KEY=VALUE. A word of another form belongs to the value before it.
  Status put_words(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find(' '), text.size());
      const std::string_view word = text.substr(0, end);
      const size_t equals = word.find('=');
      if (equals != std::string_view::npos && equals > 0)
        DL_TRY(put(word.substr(0, equals), word.substr(equals + 1)));
      else if (last_ != nullptr && !word.empty())
        last_->append(" ").append(word);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return {};
  }

  void go_on(std::string_view line) {
    if (last_ != nullptr) last_->append("\n").append(line);
  }

  // Reads a line "WORDS KEY=REST", whose last value is all the rest.
  Status put_words_and_rest(std::string_view line, std::string_view key) {
    const std::string start = fmt::format(" {}=", key);
    const size_t at = line.find(start);
    if (at == std::string_view::npos) return put_words(line);
    DL_TRY(put_words(line.substr(0, at)));
    return put(key, line.substr(at + start.size()));
  }

  Status read_first(std::string_view line) {
    if (!starts_with(line, "JobId="))
      return Error{Errc::kInvalid, "scontrol show job: a job begins with JobId=, but this line is '" +
                                       printable(std::string(line), 200) + "'"};
    return put_words_and_rest(line, "JobName");
  }

  Status read_line(std::string_view line) {
    const std::string_view key = key_of(line);
    const bool before_owner = part_ == Part::kOfName || part_ == Part::kOfNumbers;
    if (before_owner && holds(kNumbers, key)) part_ = Part::kOfNumbers;
    if (before_owner && key == "UserId") part_ = Part::kOfHead;
    if ((part_ == Part::kOfHead || part_ == Part::kOfNetwork) && key == kTexts.front()) {
      part_ = Part::kOfTexts;
      head_ = job_.values;
    }
    switch (part_) {
      case Part::kOfNumbers:
        return holds(kNumbers, key) ? put_words(trim(line)) : bad("does not say UserId where scontrol does");
      case Part::kOfHead:
        return read_head(line, key);
      case Part::kOfTexts:
      case Part::kOfEnd:
        return read_text(line, key);
      default:
        go_on(line);
        return {};
    }
  }

  Status read_head(std::string_view line, std::string_view key) {
    if (starts_with(trim(line), "Nodes=") && line.find(" CPU_IDs=") != std::string_view::npos) return read_share(line);
    if (key != "OverSubscribe") return put_words(trim(line));
    part_ = Part::kOfNetwork;
    return put_words_and_rest(trim(line), "Network");
  }

  // Reads "     Nodes=n[1-2] CPU_IDs=0-1 Mem=0 GRES=gpu:2(IDX:0-1)".
  Status read_share(std::string_view line) {
    Reader words;
    DL_TRY(words.put_words(trim(line)));
    job_.node_shares.push_back({words.job_.value("Nodes"), words.job_.value("CPU_IDs"), words.job_.value("GRES")});
    return {};
  }

  Status read_text(std::string_view line, std::string_view key) {
    if (!key.empty() && head_.count(key) > 0) return bad(fmt::format("says {} twice; allowed: once", key));
    const auto text = std::find(kTexts.begin(), kTexts.end(), key);
    const bool is_text = text != kTexts.end();
    if (is_text) {
      const size_t place = static_cast<size_t>(text - kTexts.begin());
      if (part_ == Part::kOfEnd || place < next_text_)
        return bad(fmt::format("says {} twice, or in another place than scontrol does; allowed: once", key));
      next_text_ = place + 1;
    } else if (!key.empty() && (holds(kBehindTexts, key) || next_text_ == kTexts.size())) {
      part_ = Part::kOfEnd;
    } else if (part_ == Part::kOfTexts) {
      go_on(next_text_ > 0 && kTexts[next_text_ - 1] == kWorkDir ? line : without_end(line));
      return {};
    }
    if (key.empty()) return {};
    const std::string_view value = line.substr(kIndent.size() + key.size() + 1);
    return put(key, key == kWorkDir ? value : without_end(value));
  }

  JobText job_;
  std::map<std::string, std::string, std::less<>> head_;
  std::string* last_ = nullptr;  // the value that is being read
  Part part_ = Part::kOfName;
  size_t next_text_ = 0;  // index into kTexts
};

constexpr int64_t kMaxTask = 1 << 30;

// The elements of a record, "3" or "0-3,7,9-20:2%4", without the number of elements that may run at once.
std::string_view tasks_of(const JobText& job) {
  const std::string_view tasks = job.value("ArrayTaskId");
  return tasks.substr(0, tasks.find('%'));
}

// Whether a list such as "0-3,7,9-20:2" contains this element.
bool has_task(std::string_view tasks, int64_t task) {
  for (const std::string& part : split(tasks, ',')) {
    const size_t dash = part.find('-'), colon = std::min(part.find(':'), part.size());
    const auto first = parse_int(part.substr(0, std::min(dash, colon)), 0, kMaxTask);
    if (!first) continue;
    if (dash == std::string::npos) {
      if (*first == task) return true;
      continue;
    }
    const auto last = parse_int(part.substr(dash + 1, colon - dash - 1), 0, kMaxTask);
    const auto stride = colon < part.size() ? parse_int(part.substr(colon + 1), 1, kMaxTask) : Result<int64_t>(1);
    if (last && stride && task >= *first && task <= *last && (task - *first) % *stride == 0) return true;
  }
  return false;
}

// Whether the element `id`, "12_3", is one of several that wait in this record.
bool waits_in(const JobText& job, const std::string& id) {
  const std::string array = array_of(id);
  if (array.empty() || job.value("ArrayJobId") != array) return false;
  const auto task = parse_int(id.substr(array.size() + 1), 0, kMaxTask);
  return task && has_task(tasks_of(job), *task);
}

// Whether the line begins the record of another job. A record ends at an empty line or one of blanks; a "JobId="
// elsewhere is a text of the job's owner.
bool begins_job(const std::vector<std::string_view>& before, std::string_view line) {
  return starts_with(line, "JobId=") && (before.empty() || trim(before.back()).empty());
}

}  // namespace

const std::string& JobText::value(std::string_view key) const {
  static const std::string kNone;
  const auto found = values.find(key);
  return found == values.end() ? kNone : found->second;
}

std::string given(const std::string& value) {
  for (const char* none : {"(null)", "N/A", "n/s", "None"})
    if (value == none) return {};
  return value;
}

std::string own_id(const JobText& job) {
  const std::string& array = job.value("ArrayJobId");
  const std::string_view tasks = tasks_of(job);
  if (!parse_int(array, 1, 0xffffffff) || tasks.empty()) return job.value("JobId");
  if (tasks.find_first_not_of("0123456789,-:") != std::string_view::npos) return job.value("JobId");
  if (tasks.find_first_of(",-:") != std::string_view::npos) return fmt::format("{}_[{}]", array, tasks);
  return parse_int(tasks, 0, kMaxTask) ? fmt::format("{}_{}", array, tasks) : job.value("JobId");
}

std::string array_of(const std::string& job_id) {
  const size_t end = job_id.find('_');
  return end == std::string::npos ? std::string() : job_id.substr(0, end);
}

Result<std::vector<JobText>> parse_job_texts(std::string_view text) {
  if (text.size() > kMaxText)
    return Error{Errc::kInvalid, "scontrol show job: its output is longer than 16 MiB, the most that is read"};
  std::vector<JobText> jobs;
  std::vector<std::string_view> lines;
  const auto finish = [&]() -> Status {
    while (!lines.empty() && trim(lines.back()).empty()) lines.pop_back();
    if (lines.empty()) return {};
    DL_TRY_ASSIGN(JobText job, Reader().read(lines));
    jobs.push_back(std::move(job));
    lines.clear();
    return {};
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (begins_job(lines, line)) DL_TRY(finish());
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  DL_TRY(finish());
  if (jobs.empty()) return Error{Errc::kInvalid, "scontrol show job: the command printed nothing"};
  return jobs;
}

Result<JobText> parse_job_text(std::string_view text, const std::string& job_id) {
  DL_TRY_ASSIGN(std::vector<JobText> jobs, parse_job_texts(text));
  const auto is_it = [&](const JobText& job) { return job.value("JobId") == job_id || own_id(job) == job_id; };
  const auto called_so = std::count_if(jobs.begin(), jobs.end(), is_it);
  if (called_so > 1)
    return Error{Errc::kInvalid,
                 fmt::format("scontrol show job: its output has two jobs with the id {}", printable(job_id, 40))};
  auto found = std::find_if(jobs.rbegin(), jobs.rend(), is_it);
  if (found == jobs.rend())
    found = std::find_if(jobs.rbegin(), jobs.rend(), [&](const JobText& job) { return waits_in(job, job_id); });
  if (found == jobs.rend())
    found =
        std::find_if(jobs.rbegin(), jobs.rend(), [&](const JobText& job) { return job.value("ArrayJobId") == job_id; });
  if (found == jobs.rend())
    return Error{Errc::kInvalid, fmt::format("scontrol show job: its output has no job {}", printable(job_id, 40))};
  return std::move(*found);
}

int count_gpus(std::string_view gres) {
  std::string flat;  // without texts in parentheses, which may contain commas
  int depth = 0;
  for (const char c : gres) {
    if (c == '(') ++depth;
    if (depth == 0) flat += c;
    if (c == ')' && depth > 0) --depth;
  }
  constexpr int64_t kMost = 1000000;
  int64_t sum = 0;
  for (const std::string& part : split(flat, ',')) {
    std::string_view item = trim(part);
    for (const std::string_view prefix : {"gres:", "gres/"})
      if (starts_with(item, prefix)) item.remove_prefix(prefix.size());
    if (!starts_with(item, "gpu:") && !starts_with(item, "gpu=")) continue;
    const auto count = parse_int(item.substr(item.find_last_of(":=") + 1), 0, kMost);
    if (count) sum += *count;
  }
  return static_cast<int>(std::min(sum, kMost));
}

}  // namespace dl::slurm_cli
