// SPDX-License-Identifier: Apache-2.0
// dl-pmix FOLDER: the PMIx server of one node of a job. The agent of the node's first learner starts it for each
// attempt (launcher/agent/pmix_server.h). It ends when dlrun closes the connection, or when its standard input ends,
// which means that its agent is gone. Users do not call it.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <string>

#include "common/base/parse.h"
#include "common/base/standard_files.h"
#include "common/base/this_process.h"
#include "common/contract/env_names.h"
#include "common/contract/request_values.h"
#include "launcher/pmix/server.h"
#include "launcher/protocol/channel.h"

namespace dl::pmix {
namespace {

using namespace std::chrono_literals;

constexpr auto kConnectLimit = 30s;
constexpr std::chrono::milliseconds kTick = 100ms;

// Messages from libpmix's thread to the main thread, which has the connection to dlrun.
class Outbox {
 public:
  Outbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  int fd() const { return event_.get(); }
  void put(const PmixMessage& message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    messages_.push_back(encode(message));
    const uint64_t one = 1;
    if (::write(event_.get(), &one, sizeof one) < 0) return;  // the counter is full, so the event is set already
  }
  std::deque<std::string> take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t count = 0;
    if (::read(event_.get(), &count, sizeof count) < 0) return {};
    return std::exchange(messages_, {});
  }

 private:
  UniqueFd event_;
  std::mutex mutex_;
  std::deque<std::string> messages_;
};

Status greet(protocol::Channel* channel) {
  DL_TRY_ASSIGN(const int64_t rank, parse_int(environment_value(env::kControlRank), 0, kMaxLearners - 1));
  DL_TRY_ASSIGN(auto endpoint, protocol::parse_endpoint(environment_value(env::kControl)));
  DL_TRY(channel->connect(endpoint.first, endpoint.second, kConnectLimit));
  protocol::Hello hello;
  hello.role = "pmix";
  hello.secret = environment_value(env::kSecret);
  hello.rank = static_cast<int>(rank);
  hello.host = node_name();
  hello.pid = ::getpid();
  hello.start = protocol::start_number();
  channel->greet(std::move(hello));
  return {};
}

void serve(protocol::Channel* channel, Outbox* outbox, Server* server) {
  constexpr int kOwn = 2;
  while (!channel->closed()) {
    pollfd fds[kOwn + protocol::Channel::kWatched] = {{STDIN_FILENO, POLLIN, 0}, {outbox->fd(), POLLIN, 0}};
    channel->watch(fds + kOwn);
    if (::poll(fds, std::size(fds), kTick.count()) < 0) continue;  // EINTR
    if (fds[0].revents != 0) return;                               // the agent never writes, so it is gone
    for (std::string& body : outbox->take()) channel->send(protocol::Pmix{std::move(body)});
    for (const protocol::ControlMessage& message : channel->handle(fds + kOwn)) {
      const auto* pmix = std::get_if<protocol::Pmix>(&message);
      auto said = pmix != nullptr ? decode(pmix->body) : Result<PmixMessage>(Error{});
      if (!said) continue;
      if (Status done = server->handle(*said); !done) outbox->put(Failed{done.error().text.substr(0, kMaxText)});
    }
    channel->tick();
  }
}

Status run(const std::string& folder) {
  // Set before libpmix's thread starts. Slurm may send these signals to every process of a step, but they are meant for
  // the learners.
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) ::signal(signal, SIG_IGN);
  Outbox outbox;
  protocol::Channel channel;
  Server server([&outbox](const PmixMessage& message) { outbox.put(message); });
  DL_TRY(greet(&channel));
  ::unsetenv(env::kSecret);
  if (Status started = server.start(folder, node_name()); !started) {
    channel.send(protocol::Pmix{encode(Failed{started.error().text.substr(0, kMaxText)})});
    channel.close(5s);
    return started;
  }
  serve(&channel, &outbox, &server);
  return {};
}

}  // namespace
}  // namespace dl::pmix

int main(int argc, char** argv) try {
  dl::open_closed_standard_files();
  if (argc != 2) {
    std::fprintf(stderr, "dl-pmix: this program is started by dl-agent; see dlrun(1)\n");
    return 2;
  }
  const dl::Status done = dl::pmix::run(argv[1]);
  if (!done) std::fprintf(stderr, "dl-pmix: %s\n", done.error().text.c_str());
  return done ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "dl-pmix: %s\n", e.what());
  return 1;
}
