// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/transport/tcp_exchange.h"

#include <cstring>
#include <mutex>

#include "checkpoint/transport/receiver.h"

namespace dl::ckpt {
namespace {

class TcpExchange final : public Exchange {
 public:
  TcpExchange(int rank, UniqueFd listener, std::vector<Endpoint> peers, std::string secret, bool one_host,
              double timeout_s)
      : rank_(rank),
        one_host_(one_host),
        timeout_s_(timeout_s),
        secret_(secret),
        endpoints_(std::move(peers)),
        peers_(endpoints_.size()),
        inbox_(static_cast<int>(endpoints_.size())),
        receiver_(std::move(listener), std::move(secret), rank, static_cast<int>(endpoints_.size()), &inbox_) {}

  ~TcpExchange() override { inbox_.shut(); }

  Status start() { return receiver_.start(); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(endpoints_.size()); }
  bool one_host() const override { return one_host_; }

  Status send(int to, uint64_t channel, uint64_t tag, const void* data, size_t size) override {
    if (to < 0 || to >= this->size())
      return Error{Errc::kInvalid, "rank " + std::to_string(to) + " is out of range; allowed: 0 to " +
                                       std::to_string(this->size() - 1)};
    if (size > kMaxExchangeBytes)
      return Error{Errc::kInvalid, "a message of " + std::to_string(size) + " bytes is too long; allowed: up to " +
                                       std::to_string(kMaxExchangeBytes)};
    const wire::Head head{channel, tag, size, hash_bytes(data, size)};
    if (to == rank_) {
      Bytes bytes(size);
      if (size > 0) std::memcpy(bytes.data(), data, size);
      inbox_.put(channel, RankMessage{rank_, tag, std::move(bytes)}, head.hash);
      return {};
    }
    Peer& peer = peers_[static_cast<size_t>(to)];
    const std::lock_guard<std::mutex> lock(peer.mutex);
    auto sent = send_over(&peer, to, head, data);
    if (!sent) {
      peer.fd.reset();
      return std::move(sent).error().with_context("send to rank " + std::to_string(to));
    }
    return {};
  }

  Result<RankMessage> receive(uint64_t channel, const std::vector<bool>& awaited, double timeout_s) override {
    bool made_room = false;
    auto message = inbox_.take(channel, awaited, timeout_s, &made_room);
    if (made_room) receiver_.wake();
    return message;
  }

  void close_channel(uint64_t channel) override {
    inbox_.close_channel(channel);
    receiver_.trim();
    receiver_.wake();
  }

 private:
  struct Peer {
    std::mutex mutex;
    UniqueFd fd;
  };

  Status send_over(Peer* peer, int to, const wire::Head& head, const void* data) {
    if (!peer->fd) {
      DL_TRY_ASSIGN(peer->fd, connect_to(endpoints_[static_cast<size_t>(to)], timeout_s_));
      DL_TRY(shake_hands(peer->fd.get(), to));
    }
    const auto bytes = wire::encode_head(head);
    DL_TRY(send_all(peer->fd.get(), bytes.data(), bytes.size()));
    return send_all(peer->fd.get(), data, head.length);
  }

  Status shake_hands(int fd, int to) {
    unsigned char challenge[wire::kChallengeBytes];
    DL_TRY(receive_all(fd, challenge, sizeof challenge));
    const auto nonce = wire::read_challenge(challenge);
    if (!nonce) return Error{Errc::kIo, "the program that listens there is not a rank of this job"};
    wire::Answer answer;
    answer.sender = static_cast<uint32_t>(rank_);
    answer.receiver = static_cast<uint32_t>(to);
    answer.nonce = wire::make_nonce();
    const auto bytes = wire::answer(secret_, *nonce, answer);
    DL_TRY(send_all(fd, bytes.data(), bytes.size()));
    Digest proof{};
    static_assert(sizeof proof == wire::kConfirmationBytes);
    DL_TRY(receive_all(fd, proof.data(), proof.size()));
    if (!same_digest(proof, wire::confirmation(secret_, *nonce, answer)))
      return Error{Errc::kIo, "the program that listens there does not know the secret of this run"};
    return {};
  }

  const int rank_;
  const bool one_host_;
  const double timeout_s_;
  const std::string secret_;
  const std::vector<Endpoint> endpoints_;
  std::vector<Peer> peers_;
  Inbox inbox_;
  Receiver receiver_;  // last member: its thread ends before the members that it uses are destroyed
};

}  // namespace

Result<std::unique_ptr<Exchange>> make_tcp_exchange(int rank, UniqueFd listener, std::vector<Endpoint> peers,
                                                    std::string secret, bool one_host, double timeout_s) {
  auto exchange = std::make_unique<TcpExchange>(rank, std::move(listener), std::move(peers), std::move(secret),
                                                one_host, timeout_s);
  DL_TRY(exchange->start());
  return std::unique_ptr<Exchange>(std::move(exchange));
}

}  // namespace dl::ckpt
