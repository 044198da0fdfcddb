// SPDX-License-Identifier: Apache-2.0
// The messages between dlrun, its agents and dlctl: one JSON object a line over TCP, {"type":"hello",...}. The first
// line of a connection is Hello with the job's secret, or Resume; a client that sends anything else, or more than
// kMaxHelloBytes before that, is cut off without an answer. Members that a version does not know are ignored, missing
// ones take their defaults. Pure: no socket here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "frameworks/families.h"
#include "launcher/image/container.h"

namespace dl::protocol {

constexpr int kProtocolVersion = 1;
constexpr size_t kMaxHelloBytes = 4096;
constexpr size_t kMaxLineBytes = 4 << 20;  // Start carries an environment and a command line

// ---- to dlrun, first line
struct Hello {
  std::string role;  // "agent", "pmix" or "ctl"
  std::string secret;
  int version = kProtocolVersion;
  // agents only:
  int rank = -1;
  std::string host;          // node name
  std::string address;       // numeric address of its connection to dlrun: where other nodes reach it
  int port = 0;              // port held for MASTER_PORT (rank 0), else 0
  int coordinator_port = 0;  // ports held for JAX's coordinator and NCCL's status service (rank 0), else 0
  int ras_port = 0;
  std::vector<int> ports;  // ports held for the learner itself, as many as dlrun asked for (env::kHoldPorts)
  int pid = 0;
  bool pmi = false;       // its task has a PMI or PMIx server, which knows each process once: it cannot begin anew
  bool sessions = false;  // it understands OpenSession and what belongs to it
  std::string error;      // why something that it had to start or hold failed, or empty
  int start = 0;          // start_number(); pmix, too
};
struct Resume {  // in place of Hello: an agent takes up its session over a new connection
  uint64_t session = 0;
  std::string token;      // OpenSession::token
  uint64_t received = 0;  // lines of dlrun's that have arrived (session_buffer.h)
  uint64_t tries = 0;     // counts the tries to resume: an older try that arrives late is refused
};

// ---- agent -> dlrun
struct Started {  // the learner's exec has succeeded
  int pid = 0;
};
struct StepReport {  // answer to Request: what the progress page held after the request was written to it
  int64_t request = 0;
  bool attached = false;
  uint32_t state = 0;  // ProgressPage::State
  int64_t step = -1;   // train step last announced, -1 = none
};
struct Progress {  // sent within 100 ms when the page has changed (each second if only `step` has), and before Exited
  uint32_t state = 0;
  int64_t step = -1;
  int64_t saved_step = -1;
  uint64_t save_ms = 0;
  int64_t done_request = 0;  // newest request the learner has acted upon
  uint64_t local_ms = 0;     // as on the progress page
  uint64_t cost_ms = 0;
  uint64_t noise = 0;
};
struct Notice {  // the agent was sent this signal (by Slurm)
  int signal = 0;
};
struct Stalled {  // the learner has made no progress for longer than Start::hang_ms allows (agent/progress_watch.h)
  int64_t silent_ms = 0;
};
struct StandingStill {  // answer to Stacks, when they are written
  int64_t step = -1;
  std::string state;  // of the main thread, one letter as in /proc
  int64_t silent_ms = 0;
  std::vector<std::string> last_lines;  // as in Exited
};
struct GpuUse {     // use of the learner's GPUs, sent each 3 to 15 s; not if it cannot be measured
  int percent = 0;  // highest of all these GPUs since the last report; -1: too little time has passed to judge by
  // Of all these GPUs together, over this time; -1: not measured, as by agents that do not know it.
  int64_t over_ms = 0;
  int gpus = 0;
  int64_t busy_ms = -1;     // in which a kernel ran: at most gpus * over_ms
  int64_t memory = -1;      // bytes in use, of all processes on these GPUs: the most that was seen
  int64_t milliwatts = -1;  // now
  int64_t millijoules = -1;
  int64_t sm_ms = -1;  // the time, multiplied by the share of each GPU's multiprocessors that were busy
};
struct Use {            // what the learner's processes have used since the last one; sent if Start::use_ms asks for it
  int64_t over_ms = 0;  // of the clock of awake_clock.h
  // -1: not measured
  int64_t cpu_ms = -1;
  int64_t memory = -1;              // bytes now, without pages of files that could be dropped
  int memory_of = 0;                // of how many learners: all of the node where they share a control group
  int64_t read = -1, written = -1;  // bytes from storage and to it
  // As memory, of this learner's processes alone; pages that they share after a fork count for each of them.
  int64_t own_memory = -1;
};
struct Voted {     // the learner says how many learners the job needs (common/contract/vote.h); at most once a second
  int change = 0;  // compared with those that there are
  std::string reason;
};
struct Connects {  // answer to WhoConnects
  int64_t query = 0;
  int uid = -1;  // who opened the connection; -1: it is not on this node
};
struct Fetched {                 // answer to Fetch, and again when it has changed, at most each 200 ms
  std::string state;             // "listing", "fetching", "done"
  int64_t bytes = 0, total = 0;  // that are there, of all that are wanted
  int64_t files = 0, all_files = 0;
  int64_t rate = 0;   // bytes a second
  bool done = false;  // all is there, and stays as long as the agent does
  int exit = -1;      // dl-data has ended with this status (128 + signal); -1: it runs
  std::string error;  // its last words, or why it could not be started
};
struct LogSize {  // the learner's log has grown; sent at most each Start::log_look_ms, and before Exited
  uint64_t bytes = 0;
};
struct LogLost {      // a part of the learner's output could not be written to its log; sent when that begins
  int64_t bytes = 0;  // lost so far
  std::string error;  // "write /jobs/7/logs/...: No space left on device"
  // The same of standard output, which the agent shares with dlrun where no srun or mpirun is between them.
  std::string output = {};
};
struct Exited {        // the learner ended, or could not be started; no process of it is left
  int exit = 0;        // exit code, -1 if by a signal or not started
  int signal = 0;      // 0 if it exited
  bool asked = false;  // dlrun had asked for its end (Signal, Kill) before
  std::string error;   // why it could not be started; empty otherwise
  int stragglers = 0;  // processes it left behind, which were killed
  // About a failure (agent/last_lines.h, oom_watch.h, error_file.h); texts are printable and bounded:
  bool memory = false;                  // the kernel killed it, or a child of it, because memory ran out
  std::string exception;                // "RuntimeError: CUDA out of memory", or empty
  std::vector<std::string> last_lines;  // of its log, oldest first
  LogLost log_lost;                     // bytes = 0: its log is complete
};

// ---- dlrun -> agent
struct Start {
  LearnerContext context;
  std::vector<std::string> families;               // frameworks/families.h, in order
  std::map<std::string, std::string> environment;  // set if the user left it unset
  std::map<std::string, std::string> forced;       // set in any case
  std::string activate;                            // shell words run before the command, or empty
  std::vector<std::string> command;
  image::Container container;  // that the command runs in, if it names an image
  std::string log;             // absolute path of the learner's log
  bool prefix = false;         // "[R] " before each line on the agent's standard output, unless line_prefix is given
  std::string line_prefix;     // other text in that place: "[2:1] "
  bool quiet = false;          // nothing on the agent's standard output, the log alone
  uint64_t log_limit = 0;      // bytes of the log that are kept; 0: all
  int64_t log_look_ms = 0;     // how often to say how long the log is; 0: never
  std::string series;          // absolute path of its series of metrics; empty: none are recorded
  std::string values;          // absolute path of the file to which it reports values itself; empty: nowhere
  std::vector<std::string> metrics;  // expressions that find metrics in its output (metric_patterns.h)
  int64_t gpu_look_ms = 0;           // how often to look at how much its GPUs are used; 0: never
  // How often to send Use; it is sent once more at the learner's end, and then the rest of GpuUse, too; 0: never.
  int64_t use_ms = 0;
  int passed_signal = 0;    // the user's own signal: a learner that has a handler for it gets it, too; else 0
  int64_t hang_ms = 0;      // no progress for so long is a failure; 0: never
  bool serves = false;      // LaunchPlan::serves(): the learner ignores SIGTERM from its start
  std::string bind;         // bind/bind_mode.h; empty: the learner is not bound
  bool free_ports = false;  // the learner's own ports are released before it starts
  // Positions, among the GPUs that Slurm shows the agent, of those that learners see; other runs of the job have the
  // rest.
  std::vector<int> gpus;
  bool narrowed = false;  // false: `gpus` is not applied, and learners see all
};
struct Fetch {  // before Start, to one agent of each node: have this program fetch the job's data, and hold it
  std::vector<std::string> command;  // dl-data with its words
  std::string progress;              // absolute path of the file in which it says how far it is
};
struct Request {  // write this request to the progress page, undecided (progress_page.h)
  int64_t request = 0;
  uint32_t kind = 0;  // ProgressPage::Request
};
struct Decide {  // all learners act at this train step; kind may be stronger than the request's
  int64_t request = 0;
  uint32_t kind = 0;
  int64_t stop_step = -1;
};
struct Withdraw {  // the request is cancelled
  int64_t request = 0;
};
struct Signal {  // send this signal to the learner's process group
  int signal = 0;
  // Only to the process that the agent has started, if it has a handler and does not use the checkpoint library.
  bool handed_on = false;
};
struct Kill {  // SIGTERM to the learner's process group, SIGKILL to all that is left after grace_ms (0: at once)
  int grace_ms = 0;
};

struct OpenSession {     // after Hello, if Hello::sessions: the connection may be taken up again if it breaks
  uint64_t session = 0;  // a dlrun uses no number twice
  std::string token;     // 32 hex digits that the agent shows, in Resume and its datagrams (heartbeat.h)
  std::string answer;    // 32 hex digits that dlrun shows, in Resumed and its datagrams
  int udp_port = 0;      // of dlrun, at the address of its control port; 0: none
};
struct Resumed {  // answer to Resume, before the repeated messages; without such a session the connection is closed
  std::string answer;     // OpenSession::answer
  uint64_t received = 0;  // lines of the agent's that have arrived
  uint16_t link = 0;      // how often this session was taken up again, modulo 2^16
};

struct Again {};  // after Exited: begin anew, as if just started, for the next attempt

struct Stacks {  // write the learner's stack traces to this file, then answer StandingStill
  std::string path;
};

struct WhoConnects {  // which user has opened this TCP connection to dlrun?
  int64_t query = 0;
  std::string client;  // numeric address of the client's end
  int client_port = 0, server_port = 0;
};

// ---- both ways
struct Pmix {  // to and from dl-pmix: one message of launcher/pmix/messages.h
  std::string body;
};
struct Ping {
  uint64_t received = 0;  // lines of the other side that have arrived since Hello (session_buffer.h)
};

// ---- dlctl -> dlrun, after Hello
struct Pause {
  std::string reason;
};
struct Grow {  // the learners are to run on so many more nodes, which dlrun asks Slurm for
  int nodes = 0;
};
struct StatusQuery {};

// ---- dlrun -> dlctl
struct Reply {  // answer to Pause and Grow: whether it is carried out, and a sentence
  bool ok = false;
  std::string text;
};
struct LearnerStatus {
  int rank = 0;
  std::string host;
  int pid = 0;
  std::string state;  // name of record::JobState
  int64_t step = -1, saved_step = -1;
  uint64_t save_ms = 0;
  std::string note;                     // what is unusual about it, or empty
  std::map<std::string, double> use{};  // what it has used in this attempt (use::learner_numbers()), as far as measured
};
struct VoteStatus {  // what the learners say of their number (supervise/votes.h)
  int voted = 0;     // learners with a vote; 0: nobody has voted, and the rest says nothing
  int learners = 0, change = 0, wanted = 0;
  std::string reason;
};
struct PoolStatus {      // the elastic pool of servers
  int min = 0, max = 0;  // as asked for; max 0: there is no pool now, and the rest says nothing
  int serving = 0;       // servers that have joined and are not about to leave
  int wanted = 0;        // as many as there should be
  int unsettled = 0;     // slots (dlpool.h) that move or are copied, or should be
};
struct JobStatus {    // answer to StatusQuery
  std::string job;    // Slurm job id or "local-..."
  std::string state;  // name of record::JobState
  std::string reason;
  int attempt = 0, restarts = 0, max_restarts = 0;
  int64_t started_ms = 0;  // of this attempt, since the epoch
  std::string stopping;    // why it is being stopped, or empty
  std::vector<LearnerStatus> learners;
  VoteStatus vote;
  std::string use;     // what was used so far, in one sentence (use/use_sentence.h); empty: nothing is known yet
  std::string data{};  // how far data is fetched or results are stored, in one sentence; empty: neither is under way
  PoolStatus pool{};
};

using ControlMessage =
    std::variant<Hello, Started, StepReport, Progress, Notice, Exited, Start, Request, Decide, Withdraw, Signal, Kill,
                 Ping, Pause, StatusQuery, Reply, JobStatus, Stalled, StandingStill, Stacks, Again, GpuUse, WhoConnects,
                 Connects, OpenSession, Resume, Resumed, Pmix, LogLost, LogSize, Voted, Use, Grow, Fetch, Fetched>;

// One line, with its newline. Text that is not UTF-8 arrives with replacement characters.
std::string encode(const ControlMessage& message);
// kInvalid for anything else than one known message (kUnsupported: a type of another version).
Result<ControlMessage> decode(const std::string& line);

// Splits a stream into lines. feed() gives the complete lines; kInvalid when one grows beyond the limit.
class LineSplitter {
 public:
  explicit LineSplitter(size_t limit) : limit_(limit) {}
  void set_limit(size_t limit) { limit_ = limit; }
  Result<std::vector<std::string>> feed(const char* data, size_t size);

 private:
  size_t limit_;
  std::string rest_;
};

// Which start of agents this process belongs to, by env::kControlStart; 0 unless that is a number.
int start_number();

// 32 hex digits from the kernel's random numbers.
Result<std::string> make_secret();
// Takes the same time wherever the two differ.
bool same_secret(const std::string& a, const std::string& b);

// "10.0.0.1:4711" and "[fe80::1]:4711".
std::string format_endpoint(const std::string& host, int port);
Result<std::pair<std::string, int>> parse_endpoint(const std::string& text);

}  // namespace dl::protocol
