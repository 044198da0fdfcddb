// SPDX-License-Identifier: Apache-2.0
// Sessions of ControlServer: agents that may connect again after their connection broke, and their heartbeats.
#include <fmt/core.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <utility>

#include "launcher/supervise/control_server.h"

namespace dl::supervise {

using namespace protocol;

void ControlServer::open_session(ConnectionId id) {
  auto it = connections_.find(id);
  auto session = AgentSession::open(id, beats_.port());
  if (it == connections_.end() || !session) return;
  write(it->second, encode(session->offer()));
  sessions_.emplace(id, *std::move(session));
}

// A connection that asks for an unknown session, or for one that was given up, is closed without an answer. An agent
// then ends its learner.
bool ControlServer::resume(Connection* connection, const Resume& resume) {
  const ConnectionId id = resume.session;
  auto found = sessions_.find(id);
  if (found == sessions_.end() || !found->second.may_resume(resume)) {
    close(connection->id);
    return false;
  }
  AgentSession& session = found->second;
  // Unread data of the old connection was not counted, so the agent sends it again over the new one.
  if (auto old = connections_.find(id); old != connections_.end()) abandon(old->second);
  connections_.erase(connection->id);
  strangers_.remove(connection->id);
  connection->id = id;
  connections_[id] = connection;
  connection->known = true;
  connection->splitter.set_limit(kMaxLineBytes);
  const Resumed answer = session.resume(resume);
  write(connection, encode(answer) + session.said().rest());
  handlers_.on_resumed(id);
  return connection->server != nullptr;
}

// Counts the messages that have arrived. Returns false if it closed the connection because of an invalid ping.
bool ControlServer::note_arrival(Connection* connection, const Result<ControlMessage>& message) {
  auto session = sessions_.find(connection->id);
  if (session == sessions_.end()) return true;
  const Ping* ping = message ? std::get_if<Ping>(&*message) : nullptr;
  if (ping == nullptr) {
    session->second.count_received();
    return true;
  }
  if (session->second.said().acknowledge(ping->received)) return true;
  sessions_.erase(session);
  drop(connection, "it acknowledged a message that was never sent to it");
  return false;
}

void ControlServer::ping(ConnectionId id) {
  auto it = connections_.find(id);
  if (it == connections_.end()) return;
  auto session = sessions_.find(id);
  // The same text as encode() makes, which would take too long for 10,000 agents twice a second.
  write(it->second, fmt::format("{{\"received\":{},\"type\":\"ping\"}}\n",
                                session != sessions_.end() ? session->second.received() : 0));
}

bool ControlServer::unacknowledged(ConnectionId id) const {
  auto it = connections_.find(id);
  if (it == connections_.end()) return true;
  uv_os_fd_t fd = -1;
  int bytes = 0;
  return uv_fileno(reinterpret_cast<const uv_handle_t*>(&it->second->handle), &fd) == 0 &&
         ::ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

void ControlServer::probe(ConnectionId id) {
  auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second.peer().size == 0) return;
  AgentSession& session = found->second;
  beats_.send(session.probe(awake_ms()), session.token(), session.peer());
}

Verdict ControlServer::verdict(ConnectionId id) const {
  auto found = sessions_.find(id);
  return found != sessions_.end() ? found->second.verdict(awake_ms()) : Verdict::kAgentKilled;
}

Udp ControlServer::udp(ConnectionId id) const {
  auto found = sessions_.find(id);
  return found != sessions_.end() ? found->second.watch().state(awake_ms()) : Udp::kNever;
}

int64_t ControlServer::answered_ms(ConnectionId id) const {
  auto found = sessions_.find(id);
  return found != sessions_.end() ? found->second.watch().answered_ms() : -1;
}

void ControlServer::heard_beat(const HeardBeat& heard, const BeatPeer& from) {
  auto found = sessions_.find(heard.beat.session);
  if (found == sessions_.end()) return;
  AgentSession& session = found->second;
  std::optional<Beat> answer;
  if (!session.hear(heard, from, awake_ms(), &answer) || !answer) return;
  beats_.send(*answer, session.token(), session.peer());
}

// Refusals are rare (an agent has died, or a firewall now rejects), so searching all sessions is good enough.
void ControlServer::beat_refused(const BeatPeer& to) {
  for (auto& [id, session] : sessions_) {
    if (!same_peer(to, session.peer())) continue;
    session.refused(to);
    if (session.tcp() != Tcp::kFine) handlers_.on_refused(id);
    return;
  }
}

// Closes the connection at once; data that is not yet written, or not yet read, is dropped.
void ControlServer::abandon(Connection* connection) {
  connection->server->connections_.erase(connection->id);
  connection->server = nullptr;
  auto* handle = reinterpret_cast<uv_handle_t*>(&connection->handle);
  if (uv_is_closing(handle) == 0)
    uv_close(handle, [](uv_handle_t* closed) { delete static_cast<Connection*>(closed->data); });
}

}  // namespace dl::supervise
