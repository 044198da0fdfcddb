// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/control_protocol.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "launcher/common/parse.h"

namespace dl {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LearnerContext, rank, world_size, servers, local_rank, local_world_size,
                                                node_rank, num_nodes, master_addr, master_port, launcher_store,
                                                store_addr, store_port, http_store_addr, http_store_port, cross_rank,
                                                cross_size, local_servers, node_name, coordinator_port, ras_port, ports,
                                                peers, interface, gpus_per_learner, cpus_per_learner, job_id, job_name,
                                                node_list, tasks_per_node, node_ranks, run_id, attempt, restarts,
                                                max_restarts, job_dir, log_dir, work_dir, checkpoint_dir, data_dir,
                                                result_dir, command)

NLOHMANN_JSON_SERIALIZE_ENUM(ImageForm, {{ImageForm::kDirectory, "directory"},
                                         {ImageForm::kSquashfs, "squashfs"},
                                         {ImageForm::kSif, "sif"}})
namespace image {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Container, image, form, runtime, binds)
}

namespace supervise {

#define DL_MESSAGE(...) NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(__VA_ARGS__)
DL_MESSAGE(Hello, role, secret, version, rank, host, address, port, coordinator_port, ras_port, ports, pid, error, pmi,
           sessions)
DL_MESSAGE(Started, pid)
DL_MESSAGE(StepReport, request, attached, state, step)
DL_MESSAGE(Progress, state, step, saved_step, save_ms, done_request, local_ms, cost_ms)
DL_MESSAGE(Notice, signal)
DL_MESSAGE(Exited, exit, signal, asked, error, stragglers, memory, exception, last_lines)
DL_MESSAGE(Start, context, families, environment, forced, activate, command, container, log, prefix, quiet, gpu_look_ms,
           hang_ms, serves, bind)
DL_MESSAGE(Request, request, kind)
DL_MESSAGE(Decide, request, kind, stop_step)
DL_MESSAGE(Withdraw, request)
DL_MESSAGE(Signal, signal)
DL_MESSAGE(Kill, grace_ms)
DL_MESSAGE(Pause, reason)
DL_MESSAGE(Reply, ok, text)
DL_MESSAGE(LearnerStatus, rank, host, pid, state, step, saved_step, save_ms, note)
DL_MESSAGE(JobStatus, job, state, reason, attempt, restarts, max_restarts, started_ms, stopping, learners)
DL_MESSAGE(Stalled, silent_ms)
DL_MESSAGE(StandingStill, step, state, silent_ms, last_lines)
DL_MESSAGE(Stacks, path)
DL_MESSAGE(GpuUse, percent)
DL_MESSAGE(WhoConnects, query, client, client_port, server_port)
DL_MESSAGE(Connects, query, uid)
DL_MESSAGE(Ping, received)
DL_MESSAGE(OpenSession, session, token, answer, udp_port)
DL_MESSAGE(Resume, session, token, received, tries)
DL_MESSAGE(Resumed, answer, received, link)
DL_MESSAGE(Pmix, body)
#undef DL_MESSAGE
// Messages without members.
void to_json(nlohmann::json& out, const Again& /*message*/) {
  out = nlohmann::json::object();
}
void from_json(const nlohmann::json& /*in*/, Again& /*message*/) {}
void to_json(nlohmann::json& out, const StatusQuery& /*message*/) {
  out = nlohmann::json::object();
}
void from_json(const nlohmann::json& /*in*/, StatusQuery& /*message*/) {}

namespace {

using nlohmann::json;

// Names in the order of Message's alternatives.
constexpr const char* kTypes[] = {"hello",          "started", "step_report", "progress", "notice",       "exited",
                                  "start",          "request", "decide",      "withdraw", "signal",       "kill",
                                  "ping",           "pause",   "status",      "reply",    "job_status",   "stalled",
                                  "standing_still", "stacks",  "again",       "gpu_use",  "who_connects", "connects",
                                  "open_session",   "resume",  "resumed",     "pmix"};
static_assert(std::size(kTypes) == std::variant_size_v<Message>);

template <size_t I = 0>
Result<Message> decode_as(const std::string& type, const json& object) {
  if constexpr (I == std::variant_size_v<Message>) {
    return Error{Errc::kUnsupported, "unknown message '" + printable(type) + "'"};
  } else {
    if (type != kTypes[I]) return decode_as<I + 1>(type, object);
    return Message(std::in_place_index<I>, object.get<std::variant_alternative_t<I, Message>>());
  }
}

}  // namespace

std::string encode(const Message& message) {
  json object = std::visit([](const auto& m) { return json(m); }, message);
  object["type"] = kTypes[message.index()];
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Message> decode(const std::string& line) {
  json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return Error{Errc::kInvalid, "message is not a JSON object"};
  auto type = object.find("type");
  if (type == object.end() || !type->is_string()) return Error{Errc::kInvalid, "message without a type"};
  try {
    return decode_as(type->get<std::string>(), object);
  } catch (const json::exception& e) {  // a member of the wrong type
    return Error{Errc::kInvalid, std::string("malformed message: ") + e.what()};
  }
}

Result<std::vector<std::string>> LineSplitter::feed(const char* data, size_t size) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < size;) {
    const char* newline = static_cast<const char*>(memchr(data + begin, '\n', size - begin));
    size_t length = newline != nullptr ? static_cast<size_t>(newline - data) - begin : size - begin;
    if (rest_.size() + length > limit_)
      return Error{Errc::kInvalid, fmt::format("message longer than {} bytes", limit_)};
    rest_.append(data + begin, length);
    begin += length;
    if (newline == nullptr) break;
    ++begin;
    lines.push_back(std::move(rest_));
    rest_.clear();
  }
  return lines;
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

}  // namespace supervise
}  // namespace dl
