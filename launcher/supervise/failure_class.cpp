// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/failure_class.h"

#include <fmt/core.h>

#include <cctype>
#include <csignal>
#include <set>

#include "common/contract/exit_codes.h"
#include "launcher/guard/death.h"

namespace dl::supervise {
namespace {

using Kind = Failure::Kind;

// Conditions that a failure has to meet. A member at its default value is no condition.
struct Matcher {
  int kinds = 0;                      // a sum of 1 << Kind; 0: a learner that ended by itself (kExit, kSignal)
  int first_exit = 0, last_exit = 0;  // range of exit codes; 0, 0: any
  std::vector<int> signals = {};
  bool memory = false;
  const char* pattern = nullptr;  // regular expression, found in one of its last lines or in its exception
};

struct Rule {
  const char* name;
  const char* code;
  Matcher matcher;
  Fault fault;
  Answer answer;
  int budget;
};

constexpr int bit(Kind kind) {
  return 1 << static_cast<int>(kind);
}

constexpr int kAnyStart = bit(Kind::kExit) | bit(Kind::kSignal) | bit(Kind::kNotStarted);

// The first row that matches counts; the last matches everything. Rows with a pattern come before the rows with the
// exit codes and signals that go along with it, and causes before their consequences: a rank whose GPU has failed also
// reports a broken connection.
const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules = {
      // Failures that are not an end of the learner by itself.
      {"no-command", "C101", {bit(Kind::kNotStarted), 126, 127}, Fault::kYours, Answer::kFail, 0},
      {"no-agent", "S102", {bit(Kind::kNoAgent)}, Fault::kOurs, Answer::kExclude, 2},
      {"node", "S104", {bit(Kind::kAgentLost)}, Fault::kOurs, Answer::kExclude, -1},
      {"launcher", "S105", {bit(Kind::kLauncher)}, Fault::kOurs, Answer::kRestart, guard::kMostStarts},
      // dl-data's exit statuses: the user's mistake; a disk that is broken or full; anything else may pass.
      {"data", kDataUserCode, {bit(Kind::kData), 65, 65}, Fault::kYours, Answer::kFail, 0},
      {"data-disk", kDataCode, {bit(Kind::kData), 74, 74}, Fault::kOurs, Answer::kExclude, 2},
      {"data-later", kDataCode, {bit(Kind::kData)}, Fault::kOurs, Answer::kRequeue, 2},
      {"no-progress", "S220", {bit(Kind::kHang)}, Fault::kOurs, Answer::kRestart, 3},
      // The program itself asks not to be started again (NVRx, too, uses 93 for that).
      {"given-up", "C202", {0, kExitDoNotRestart, kExitDoNotRestart}, Fault::kYours, Answer::kFail, 0},
      {"memory", "C210", {0, 0, 0, {}, true}, Fault::kYours, Answer::kRestart, 2},
      // Hardware and its drivers: most of these nodes are excluded.
      {"gpu",
       "S110",
       {0,
        0,
        0,
        {},
        false,
        "uncorrectable ECC|[Xx]id \\(PCI|Xid:? *(48|63|64|74|79|94|95)|fallen off the bus|CUDA_ERROR_ECC|"
        "CUDA error: (uncorrectable|hardware stack error|device-side hardware)|NVML.*(Unknown Error|GPU is lost)"},
       Fault::kOurs,
       Answer::kExclude,
       -1},
      {"gpu-driver",
       "S111",
       {0,
        0,
        0,
        {},
        false,
        "CUDA driver version is insufficient|no CUDA-capable device|CUDA unknown error|Failed to initialize NVML|"
        "CUDA_ERROR_(NO_DEVICE|SYSTEM_NOT_READY|DEVICE_UNAVAILABLE)|all CUDA-capable devices are busy"},
       Fault::kOurs,
       Answer::kExclude,
       2},
      // The program uses too much memory.
      {"gpu-memory",
       "C211",
       {0,
        0,
        0,
        {},
        false,
        "CUDA out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED: .*[Oo]ut of memory|"
        "CUBLAS_STATUS_ALLOC_FAILED|failed to allocate.*GPU memory"},
       Fault::kYours,
       Answer::kRestart,
       1},
      {"shared-memory",
       "C212",
       {0, 0, 0, {}, false, "insufficient shared memory|DataLoader worker .*killed by signal: Bus error"},
       Fault::kYours,
       Answer::kRestart,
       1},
      {"host-memory",
       "C210",
       {0, 0, 0, {}, false, "^MemoryError|std::bad_alloc|Cannot allocate memory"},
       Fault::kYours,
       Answer::kRestart,
       2},
      // Storage. A full disk stays full until somebody makes room; that includes a disk on which dlrun itself cannot
      // write.
      {"quota", "C220", {kAnyStart, 0, 0, {}, false, "Disk quota exceeded"}, Fault::kYours, Answer::kHold, 0},
      // The second alternative is the message of libdlckpt.
      {"storage-full",
       "S306",
       {kAnyStart, 0, 0, {}, false, "No space left on device|disk of the checkpoint directory is full"},
       Fault::kOurs,
       Answer::kHold,
       0},
      {"not-started", "S101", {bit(Kind::kNotStarted)}, Fault::kOurs, Answer::kFail, 0},
      {"storage",
       "S307",
       {0,
        0,
        0,
        {},
        false,
        "Stale file handle|Input/output error|Read-only file system|Transport endpoint is not connected"},
       Fault::kOurs,
       Answer::kExclude,
       2},
      // The program cannot run on any node.
      {"syntax",
       "C204",
       {0, 0, 0, {}, false, "^(SyntaxError|IndentationError|TabError): "},
       Fault::kYours,
       Answer::kFail,
       0},
      // supervisor_nodes.cpp starts such an attempt again with another store.
      {kNoLibuv,
       "C205",
       {0, 0, 0, {}, false, "use_libuv was requested but PyTorch was buil[dt] without libuv"},
       Fault::kYours,
       Answer::kFail,
       0},
      // The network between the nodes. A lost peer causes the same messages, so these rows follow those that explain
      // the loss.
      {"network",
       "S120",
       {0,
        0,
        0,
        {},
        false,
        "NCCL WARN .*(NET/|IB :|Call to (ibv|connect|recv))|unhandled system error|ncclSystemError|"
        "ncclRemoteError|[Nn]o route to host|Network is unreachable|Got completion .*with error"},
       Fault::kOurs,
       Answer::kRestart,
       3},
      {"port",
       "S121",
       {0, 0, 0, {}, false, "[Aa]ddress already in use|EADDRINUSE|Binding port [0-9]+ failed"},
       Fault::kOurs,
       Answer::kRestart,
       3},
      {"crash",
       "C201",
       {0, 0, 0, {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS}},
       Fault::kYours,
       Answer::kRestart,
       -1},
      {"killed", "C201", {bit(Kind::kSignal)}, Fault::kYours, Answer::kRestart, -1},
      {"exit", "C201", {}, Fault::kYours, Answer::kRestart, -1},
  };
  return kRules;
}

bool says(const Failure& failure, const std::string& pattern) {
  if (failure.kind == Kind::kNotStarted) return find_line(pattern, {failure.text}).has_value();
  return find_line(pattern, failure.last_lines) || find_line(pattern, {failure.exception});
}

bool matches(const Matcher& matcher, const Failure& failure) {
  const int kinds = matcher.kinds != 0 ? matcher.kinds : bit(Kind::kExit) | bit(Kind::kSignal);
  if ((kinds & bit(failure.kind)) == 0) return false;
  if (matcher.last_exit > 0 &&
      (failure.kind == Kind::kSignal || failure.exit < matcher.first_exit || failure.exit > matcher.last_exit))
    return false;
  if (!matcher.signals.empty()) {
    bool among = false;
    for (int signal : matcher.signals) among = among || (failure.kind == Kind::kSignal && failure.signal == signal);
    if (!among) return false;
  }
  if (matcher.memory && !failure.memory) return false;
  return matcher.pattern == nullptr || says(failure, matcher.pattern);
}

FailureClass class_of(const Rule& rule) {
  return {rule.name, rule.code, rule.fault, rule.answer, rule.budget};
}

FailureClass class_of(const FailureRow& row) {
  FailureClass found;
  found.name = row.name;
  found.fault = row.fault.value_or(Fault::kOurs);
  found.code = found.fault == Fault::kOurs ? "S199" : "C299";
  for (const Rule& rule : rules()) {
    if (row.name != rule.name) continue;
    found = class_of(rule);
    break;
  }
  if (row.fault) found.fault = *row.fault;
  if (row.answer) found.answer = *row.answer;
  if (row.budget) found.budget = *row.budget;
  return found;
}

// Removes numbers and addresses, which differ from rank to rank and from run to run.
std::string without_numbers(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (std::isdigit(c) != 0) {
      // The rest of a hexadecimal number, an address or a version goes with its first digit.
      while (i + 1 < text.size() && (std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0 ||
                                     text[i + 1] == 'x' || text[i + 1] == '.' || text[i + 1] == ':'))
        ++i;
      out += '#';
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

FailureClass classify(const Failure& failure, const std::vector<FailureRow>& site) {
  const bool by_itself = failure.kind == Kind::kExit || failure.kind == Kind::kSignal;
  // What the program asks for by its exit code counts more than what it prints.
  const bool given_up = failure.kind == Kind::kExit && failure.exit == kExitDoNotRestart;
  if (by_itself && !given_up)
    for (const FailureRow& row : site)
      if (says(failure, row.pattern)) return class_of(row);
  for (const Rule& rule : rules())
    if (matches(rule.matcher, failure)) return class_of(rule);
  return {};
}

std::string format_class(const FailureClass& failure_class) {
  return fmt::format("{} ({}, {})", failure_class.name, failure_class.code, fault_name(failure_class.fault));
}

std::string failure_signature(const Failure& failure, const FailureClass& failure_class) {
  if (failure.step < 0 || failure_class.fault == Fault::kOurs) return {};
  return fmt::format("{}/{}/{}/{}", failure_class.name, exit_status(failure), failure.step,
                     without_numbers(failure.exception).substr(0, 200));
}

int attempts_with(const std::string& signature, const std::vector<record::Event>& events) {
  if (signature.empty()) return 0;
  std::set<int> attempts;
  for (const record::Event& event : events) {
    if (!event.learner && event.state == record::JobState::kHalted) attempts.clear();
    if (event.learner && event.signature == signature) attempts.insert(event.attempt);
  }
  return static_cast<int>(attempts.size());
}

int attempts_without_data(const std::vector<record::Event>& events) {
  std::set<int> attempts;
  for (const record::Event& event : events) {
    const bool looked_at = !event.learner && event.state == record::JobState::kHalted;
    if (looked_at || event.state == record::JobState::kProcessing) attempts.clear();
    if (event.learner && event.code == kDataCode) attempts.insert(event.attempt);
  }
  return static_cast<int>(attempts.size());
}

}  // namespace dl::supervise
