// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/control_protocol.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/contract/env_names.h"
#include "common/json/json_members.h"
#include "launcher/protocol/typed_message.h"

namespace dl {

void members(LearnerContext& m, JsonMembers& each) {
  each("rank", m.rank)("world_size", m.world_size)("servers", m.servers)("local_rank", m.local_rank)(
      "local_world_size", m.local_world_size)("node_rank", m.node_rank)("num_nodes", m.num_nodes)(
      "master_addr", m.master_addr)("master_port", m.master_port)("launcher_store", m.launcher_store)(
      "store_addr", m.store_addr)("store_port", m.store_port)("http_store_addr", m.http_store_addr)(
      "http_store_port", m.http_store_port)("cross_rank", m.cross_rank)("cross_size", m.cross_size)(
      "local_servers", m.local_servers)("pool", m.pool)("pool_places", m.pool_places)("pool_addr", m.pool_addr)(
      "pool_port", m.pool_port)("pool_secret", m.pool_secret)("node_name", m.node_name)(
      "coordinator_port", m.coordinator_port)("ras_port", m.ras_port)("ports", m.ports)("peers", m.peers)(
      "interface", m.interface)("gpus_per_learner", m.gpus_per_learner)("cpus_per_learner", m.cpus_per_learner)(
      "job_id", m.job_id)("job_name", m.job_name)("node_list", m.node_list)("tasks_per_node", m.tasks_per_node)(
      "node_ranks", m.node_ranks)("run_id", m.run_id)("attempt", m.attempt)("restarts", m.restarts)(
      "max_restarts", m.max_restarts)("job_dir", m.job_dir)("log_dir", m.log_dir)("work_dir", m.work_dir)(
      "checkpoint_dir", m.checkpoint_dir)("data_dir", m.data_dir)("result_dir", m.result_dir)("command", m.command)(
      "batch_range", m.batch_range)("lr_scale", m.lr_scale)("global_batch", m.global_batch)("accumulation",
                                                                                            m.accumulation);
}

// Names of ImageForm, in its order.
constexpr const char* kImageForms[] = {"directory", "squashfs", "sif"};

Json to_json(ImageForm form) {
  return kImageForms[static_cast<size_t>(form)];
}

void from_json(const Json& json, ImageForm* form) {
  for (size_t i = 0; i < std::size(kImageForms); ++i)
    if (json.is_string() && json.text() == kImageForms[i]) *form = static_cast<ImageForm>(i);
}

namespace image {
void members(Container& m, JsonMembers& each) {
  each("image", m.image)("form", m.form)("runtime", m.runtime)("binds", m.binds);
}
}  // namespace image

namespace protocol {

void members(Hello& m, JsonMembers& each) {
  each("role", m.role)("secret", m.secret)("version", m.version)("rank", m.rank)("host", m.host)("address", m.address)(
      "port", m.port)("coordinator_port", m.coordinator_port)("ras_port", m.ras_port)("ports", m.ports)("pid", m.pid)(
      "error", m.error)("pmi", m.pmi)("sessions", m.sessions)("start", m.start);
}
void members(Started& m, JsonMembers& each) {
  each("pid", m.pid);
}
void members(StepReport& m, JsonMembers& each) {
  each("request", m.request)("attached", m.attached)("state", m.state)("step", m.step);
}
void members(Progress& m, JsonMembers& each) {
  each("state", m.state)("step", m.step)("saved_step", m.saved_step)("save_ms", m.save_ms)(
      "done_request", m.done_request)("local_ms", m.local_ms)("cost_ms", m.cost_ms)("noise", m.noise);
}
void members(Notice& m, JsonMembers& each) {
  each("signal", m.signal);
}
void members(LogLost& m, JsonMembers& each) {
  each("bytes", m.bytes)("error", m.error)("output", m.output);
}
void members(Fetch& m, JsonMembers& each) {
  each("command", m.command)("progress", m.progress);
}
void members(Fetched& m, JsonMembers& each) {
  each("state", m.state)("bytes", m.bytes)("total", m.total)("files", m.files)("all_files", m.all_files)(
      "rate", m.rate)("done", m.done)("exit", m.exit)("error", m.error);
}
void members(LogSize& m, JsonMembers& each) {
  each("bytes", m.bytes);
}
void members(Exited& m, JsonMembers& each) {
  each("exit", m.exit)("signal", m.signal)("asked", m.asked)("error", m.error)("stragglers", m.stragglers)(
      "memory", m.memory)("exception", m.exception)("last_lines", m.last_lines)("log_lost", m.log_lost);
}
void members(Start& m, JsonMembers& each) {
  each("context", m.context)("families", m.families)("environment", m.environment)("forced", m.forced)(
      "activate", m.activate)("command", m.command)("container", m.container)("log", m.log)("prefix", m.prefix)(
      "line_prefix", m.line_prefix)("quiet", m.quiet)("gpu_look_ms", m.gpu_look_ms)("hang_ms", m.hang_ms)(
      "serves", m.serves)("bind", m.bind)("free_ports", m.free_ports)("gpus", m.gpus)("narrowed", m.narrowed)(
      "log_limit", m.log_limit)("log_look_ms", m.log_look_ms)("series", m.series)("values", m.values)(
      "metrics", m.metrics)("use_ms", m.use_ms)("passed_signal", m.passed_signal);
}
void members(Request& m, JsonMembers& each) {
  each("request", m.request)("kind", m.kind);
}
void members(Decide& m, JsonMembers& each) {
  each("request", m.request)("kind", m.kind)("stop_step", m.stop_step);
}
void members(Withdraw& m, JsonMembers& each) {
  each("request", m.request);
}
void members(Signal& m, JsonMembers& each) {
  each("signal", m.signal)("handed_on", m.handed_on);
}
void members(Kill& m, JsonMembers& each) {
  each("grace_ms", m.grace_ms);
}
void members(Pause& m, JsonMembers& each) {
  each("reason", m.reason);
}
void members(Grow& m, JsonMembers& each) {
  each("nodes", m.nodes);
}
void members(Reply& m, JsonMembers& each) {
  each("ok", m.ok)("text", m.text);
}
void members(LearnerStatus& m, JsonMembers& each) {
  each("rank", m.rank)("host", m.host)("pid", m.pid)("state", m.state)("step", m.step)("saved_step", m.saved_step)(
      "save_ms", m.save_ms)("note", m.note)("use", m.use);
}
void members(PoolStatus& m, JsonMembers& each) {
  each("min", m.min)("max", m.max)("serving", m.serving)("wanted", m.wanted)("unsettled", m.unsettled);
}
void members(VoteStatus& m, JsonMembers& each) {
  each("voted", m.voted)("learners", m.learners)("change", m.change)("wanted", m.wanted)("reason", m.reason);
}
void members(JobStatus& m, JsonMembers& each) {
  each("job", m.job)("state", m.state)("reason", m.reason)("attempt", m.attempt)("restarts", m.restarts)(
      "max_restarts", m.max_restarts)("started_ms", m.started_ms)("stopping", m.stopping)("learners", m.learners)(
      "vote", m.vote)("use", m.use)("data", m.data)("pool", m.pool);
}
void members(Stalled& m, JsonMembers& each) {
  each("silent_ms", m.silent_ms);
}
void members(StandingStill& m, JsonMembers& each) {
  each("step", m.step)("state", m.state)("silent_ms", m.silent_ms)("last_lines", m.last_lines);
}
void members(Stacks& m, JsonMembers& each) {
  each("path", m.path);
}
void members(GpuUse& m, JsonMembers& each) {
  each("percent", m.percent)("over_ms", m.over_ms)("gpus", m.gpus)("busy_ms", m.busy_ms)("memory", m.memory)(
      "milliwatts", m.milliwatts)("millijoules", m.millijoules)("sm_ms", m.sm_ms);
}
void members(Use& m, JsonMembers& each) {
  each("over_ms", m.over_ms)("cpu_ms", m.cpu_ms)("memory", m.memory)("memory_of", m.memory_of)("read", m.read)(
      "written", m.written)("own_memory", m.own_memory);
}
void members(Voted& m, JsonMembers& each) {
  each("change", m.change)("reason", m.reason);
}
void members(WhoConnects& m, JsonMembers& each) {
  each("query", m.query)("client", m.client)("client_port", m.client_port)("server_port", m.server_port);
}
void members(Connects& m, JsonMembers& each) {
  each("query", m.query)("uid", m.uid);
}
void members(Ping& m, JsonMembers& each) {
  each("received", m.received);
}
void members(OpenSession& m, JsonMembers& each) {
  each("session", m.session)("token", m.token)("answer", m.answer)("udp_port", m.udp_port);
}
void members(Resume& m, JsonMembers& each) {
  each("session", m.session)("token", m.token)("received", m.received)("tries", m.tries);
}
void members(Resumed& m, JsonMembers& each) {
  each("answer", m.answer)("received", m.received)("link", m.link);
}
void members(Pmix& m, JsonMembers& each) {
  each("body", m.body);
}
void members(Again& /*message*/, JsonMembers& /*each*/) {}
void members(StatusQuery& /*message*/, JsonMembers& /*each*/) {}

namespace {

// Names of ControlMessage's alternatives, in their order.
constexpr const char* kTypes[] = {"hello",          "started", "step_report", "progress", "notice",       "exited",
                                  "start",          "request", "decide",      "withdraw", "signal",       "kill",
                                  "ping",           "pause",   "status",      "reply",    "job_status",   "stalled",
                                  "standing_still", "stacks",  "again",       "gpu_use",  "who_connects", "connects",
                                  "open_session",   "resume",  "resumed",     "pmix",     "log_lost",     "log_size",
                                  "voted",          "use",     "grow",        "fetch",    "fetched"};
}  // namespace

std::string encode(const ControlMessage& message) {
  return encode_typed(message, kTypes) + "\n";
}

Result<ControlMessage> decode(const std::string& line) {
  return decode_typed<ControlMessage>(line, kTypes);
}

Result<std::vector<std::string>> LineSplitter::feed(const char* data, size_t size) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < size;) {
    const char* newline = static_cast<const char*>(memchr(data + begin, '\n', size - begin));
    size_t length = newline != nullptr ? static_cast<size_t>(newline - data) - begin : size - begin;
    if (rest_.size() + length > limit_)
      return Error{Errc::kInvalid,
                   fmt::format("the message is longer than {} bytes, the most that is allowed", limit_)};
    rest_.append(data + begin, length);
    begin += length;
    if (newline == nullptr) break;
    ++begin;
    lines.push_back(std::move(rest_));
    rest_.clear();
  }
  return lines;
}

int start_number() {
  const auto number = parse_int(environment_value(env::kControlStart), 0, INT_MAX);
  return number ? static_cast<int>(*number) : 0;
}

Result<std::string> make_secret() {
  unsigned char bytes[16];
  ssize_t n;
  do n = ::getrandom(bytes, sizeof bytes, 0);
  while (n < 0 && errno == EINTR);
  if (n != sizeof bytes) return errno_error("get random bytes", errno);
  std::string text;
  for (unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

bool same_secret(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;  // the length is public
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference =
        static_cast<unsigned char>(difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  return difference == 0;
}

std::string format_endpoint(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Result<std::pair<std::string, int>> parse_endpoint(const std::string& text) {
  size_t colon = text.rfind(':');
  Error bad{Errc::kInvalid, "'" + printable(text) + "' is not an address; allowed: HOST:PORT or [HOST]:PORT"};
  if (colon == std::string::npos || colon == 0) return bad;
  Result<int64_t> port = parse_int(text.substr(colon + 1), 1, 65535);
  if (!port) return bad;
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty()) return bad;
  return std::make_pair(host, static_cast<int>(*port));
}

}  // namespace protocol
}  // namespace dl
