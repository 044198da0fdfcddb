// SPDX-License-Identifier: Apache-2.0
// Levels::copy_to_partner: each rank's files go to a rank on the next node, which puts them beside its own. Messages of
// one rank to another arrive in order: for each file its name (tag 1), its bytes in pieces (tag 2), then an end (tag
// 3). For a file that an earlier save wrote and that the partner got then, only the name is sent (tag 4).
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <utility>

#include "checkpoint/format/manifest_json.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/levels/levels.h"
#include "checkpoint/levels/partner.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "checkpoint/store/quiet_thread.h"
#include "checkpoint/transport/exchange.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{8} << 20;
enum Tag : uint64_t { kName = 1, kBytes = 2, kEnd = 3, kSame = 4 };

// Receives the files of one sender, in order.
class Receiver {
 public:
  // `earlier` is the directory of this rank's earlier checkpoints.
  Receiver(Io& io, std::string spare, std::string earlier, const Manifest& manifest)
      : io_(io), spare_(std::move(spare)), earlier_(std::move(earlier)), manifest_(manifest) {}

  Status take(const RankMessage& message) {
    const std::string_view text(reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size());
    if (message.tag == kName || message.tag == kSame) {
      DL_TRY(close());
      // The sender may only name its own files of this checkpoint.
      const auto files = stored_files(manifest_);
      const auto file = std::find_if(files.begin(), files.end(), [&](const StoredFile& f) { return f.name == text; });
      if (file == files.end() || file->writer != static_cast<uint32_t>(message.from))
        return Error{Errc::kInternal, "rank " + std::to_string(message.from) + " sends a file of another rank"};
      if (message.tag == kSame) {
        if (!link_from_earlier(io_, earlier_, manifest_, *file, spare_ + "/" + file->name))
          return Error{Errc::kNotFound, "the partner has lost " + file->name};
        linked.push_back(file->name);
        return {};
      }
      auto opened = File::open(io_, spare_ + "/" + file->name, O_WRONLY | O_CREAT | O_EXCL);
      if (!opened) return std::move(opened).error();
      open_.emplace(*std::move(opened));
      left_ = file->size;
      DL_TRY(open_->reserve(file->size));
      names.push_back(file->name);
      at_ = 0;
      return {};
    }
    if (!open_ || text.size() > left_) return Error{Errc::kInternal, "a file from a partner has the wrong length"};
    DL_TRY(open_->write_all(text.data(), text.size(), at_));
    at_ += text.size();
    left_ -= text.size();
    return {};
  }
  Status close() {
    if (!open_) return {};
    auto closed = left_ == 0 ? open_->sync_and_close()
                             : Status(Error{Errc::kInternal, "a file from a partner ended " + std::to_string(left_) +
                                                                 " bytes too early"});
    open_.reset();
    return closed;
  }

  std::vector<std::string> names;   // names of files that arrived whole
  std::vector<std::string> linked;  // names of files that were linked from an earlier checkpoint

 private:
  Io& io_;
  std::string spare_, earlier_;
  const Manifest& manifest_;
  std::optional<File> open_;
  uint64_t left_ = 0, at_ = 0;
};

}  // namespace

std::vector<int> choose_partners(const std::vector<std::string>& node_of_rank) {
  std::vector<std::string> nodes;  // ordered by their first ranks
  std::map<std::string, std::vector<int>> ranks;
  for (size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    auto& on_node = ranks[node_of_rank[rank]];
    if (on_node.empty()) nodes.push_back(node_of_rank[rank]);
    on_node.push_back(static_cast<int>(rank));
  }
  std::vector<int> partners(node_of_rank.size(), -1);
  if (nodes.size() < 2) return partners;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const std::vector<int>& here = ranks[nodes[n]];
    const std::vector<int>& next = ranks[nodes[(n + 1) % nodes.size()]];
    for (size_t i = 0; i < here.size(); ++i) partners[static_cast<size_t>(here[i])] = next[i % next.size()];
  }
  return partners;
}

Status Levels::learn_partners(Group& group) {
  if (!partners_.empty()) return {};
  DL_TRY_ASSIGN(const std::vector<std::string> nodes, group.gather(settings_.node));
  std::string said;
  if (group.rank() == 0) said = Json(choose_partners(nodes)).dump();
  DL_TRY_ASSIGN(const std::string heard, group.broadcast(said, 1));
  const auto json = parse_json(heard);
  if (!json || !json->is_array() || json->size() != static_cast<size_t>(group.size()))
    return Error{Errc::kInternal,
                 "the message of rank 0 about partners cannot be read; all ranks need the same libdlckpt"};
  for (const Json& partner : *json) partners_.push_back(partner.is_number_integer() ? partner.get<int>() : -1);
  return {};
}

Status Levels::send_files(Exchange& exchange, uint64_t channel, int to, const Manifest& manifest) {
  const std::string source = checkpoint_path(own_, manifest.name);
  std::vector<unsigned char> buffer;
  for (const StoredFile& file : stored_files(manifest)) {
    if (file.writer != static_cast<uint32_t>(settings_.rank)) continue;
    const FileRecord* const record = file.data_file == SIZE_MAX ? nullptr : &manifest.files[file.data_file];
    if (record && record->origin && at_partner_ == record->root) {
      DL_TRY(exchange.send(to, channel, kSame, file.name.data(), file.name.size()));
      continue;
    }
    DL_TRY(exchange.send(to, channel, kName, file.name.data(), file.name.size()));
    auto from = File::open(io_, source + "/" + file.name, O_RDONLY);
    if (!from) return std::move(from).error();
    buffer.resize(std::min(kPieceBytes, std::max<uint64_t>(file.size, 1)));
    for (uint64_t at = 0; at < file.size;) {
      const uint64_t part = std::min<uint64_t>(buffer.size(), file.size - at);
      DL_TRY(from->read_all(buffer.data(), part, at));
      DL_TRY(exchange.send(to, channel, kBytes, buffer.data(), part));
      at += part;
    }
  }
  return {};
}

Status Levels::receive_files(Exchange& exchange, uint64_t channel, const Manifest& manifest) {
  std::vector<bool> awaited(partners_.size(), false);
  std::map<int, Receiver> receivers;
  const std::string spare = own_ + "/" + kTemporaryPrefix + "partner-" + format_checkpoint_name(manifest.name);
  for (size_t rank = 0; rank < partners_.size(); ++rank) {
    if (partners_[rank] != settings_.rank) continue;
    awaited[rank] = true;
    receivers.emplace(static_cast<int>(rank), Receiver(io_, spare, own_, manifest));
  }
  if (receivers.empty()) return {};
  DL_TRY(remove_tree(io_, spare));
  if (const int rc = io_.mkdir(spare); rc < 0) return io_error("make", spare, rc);
  size_t open = receivers.size();
  while (open > 0) {
    DL_TRY_ASSIGN(const RankMessage message, exchange.receive(channel, awaited, settings_.timeout_s));
    const auto receiver = receivers.find(message.from);
    if (receiver == receivers.end()) continue;
    if (message.tag != kEnd) {
      DL_TRY(receiver->second.take(message));
      continue;
    }
    DL_TRY(receiver->second.close());
    awaited[static_cast<size_t>(message.from)] = false;
    --open;
  }
  // Only files that verify are put beside our own.
  const auto files = stored_files(manifest);
  const std::string home = checkpoint_path(own_, manifest.name);
  const auto put = [&](const std::string& name) -> Status {
    const int rc = io_.rename(spare + "/" + name, home + "/" + name);
    if (rc < 0) return io_error("rename to", home + "/" + name, rc);
    return {};
  };
  for (const auto& [rank, receiver] : receivers) {
    for (const std::string& name : receiver.names) {
      const auto file = std::find_if(files.begin(), files.end(), [&](const StoredFile& f) { return f.name == name; });
      DL_TRY(verify_stored_file(io_, spare, manifest, *file));
      DL_TRY(put(name));
    }
    for (const std::string& name : receiver.linked) DL_TRY(put(name));
  }
  if (const int rc = io_.fsync_directory(home); rc < 0) return io_error("fsync", home, rc);
  return remove_tree(io_, spare);
}

Status Levels::copy_to_partner(Group& group, Exchange* exchange, const Manifest& manifest) {
  if (!settings_.partner || !exchange) return {};
  DL_TRY(learn_partners(group));
  const uint64_t channel = make_channel(ChannelKind::kPartner, ++partner_copies_);
  const int to = partners_[static_cast<size_t>(settings_.rank)];
  Status sent, received;
  QuietThread sender;
  if (to >= 0) {
    const auto send = [&] {
      sent = or_out_of_memory([&] { return send_files(*exchange, channel, to, manifest); });
      // The end is sent even after a failure: then the receiver sees that something is missing, and does not wait.
      auto ended = exchange->send(to, channel, kEnd, nullptr, 0);
      if (sent && !ended) sent = std::move(ended);
    };
    auto started = QuietThread::start(send);
    if (started) {
      sender = *std::move(started);
    } else {
      sent = std::move(started).error().with_context("copy to the partner");
      ignore(exchange->send(to, channel, kEnd, nullptr, 0), "the receiver gives up after its timeout");
    }
  }
  received = or_out_of_memory([&] { return receive_files(*exchange, channel, manifest); });
  // A sender may be waiting for room at this receiver, which has given up.
  if (!received) exchange->close_channel(channel);
  sender.join();
  auto outcome = agree_all(group, sent ? received : sent);
  exchange->close_channel(channel);
  at_partner_.reset();
  if (outcome)
    for (const FileRecord& file : manifest.files)
      if (file.writer == static_cast<uint32_t>(settings_.rank) && file.part != 0) at_partner_ = file.root;
  return outcome;
}

}  // namespace dl::ckpt
