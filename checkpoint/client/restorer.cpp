// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/restorer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "checkpoint/client/box_text.h"
#include "checkpoint/engine/memory_limit.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/verify.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

constexpr int kMaxReadThreads = 64;

int read_threads(int world_size) {
  if (const char* text = std::getenv("DL_CHECKPOINT_READ_THREADS"))
    if (const auto threads = parse_int(text, 1, kMaxReadThreads)) return static_cast<int>(*threads);
  const auto room = memory_room();
  return usual_read_threads(world_size, room ? std::optional<uint64_t>(room->left()) : std::nullopt);
}

// The severity of an outcome: if ranks differ, the most severe one counts.
int weight(char end) {
  switch (static_cast<LoadEnd>(end)) {
    case LoadEnd::kDone:
      return 0;
    case LoadEnd::kPeers:
      return 1;
    case LoadEnd::kBad:
      return 2;
    case LoadEnd::kFailed:
      return 3;
  }
  return 4;
}

LoadOutcome outcome_of(const Error& error, LoadEnd otherwise) {
  return LoadOutcome{error.sys_errno == ENOMEM ? LoadEnd::kFailed : otherwise, error};
}

}  // namespace

Result<Restored> Restorer::run(Peers& peers, int64_t step, bool blobs_only) {
  const auto begin = std::chrono::steady_clock::now();
  proposal_ = Proposal();
  Restored restored;
  bool touched = false, alone = false, again = false;
  for (;;) {
    if (!again) {
      DL_TRY_ASSIGN(restored.name, agree(peers, step, touched));
    }
    DL_TRY_ASSIGN(const Next next, load_together(peers, restored.name, blobs_only, alone, &touched, &restored.note));
    if (next == Next::kDone) break;
    again = next == Next::kAlone;
    alone = alone || again;
  }
  peeked_.reset();
  if (blobs_only) peeked_ = restored.name;
  stats_.step = restored.name.step;
  stats_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return restored;
}

Result<CheckpointName> Restorer::agree(Peers& peers, int64_t step, bool touched) {
  std::string said;
  if (peers.group().rank() == 0) {
    auto name = or_out_of_memory([&] { return propose(step, touched); });
    said = name ? say_ok(format_checkpoint_name(*name)) : say_error(name.error());
  }
  DL_TRY_ASSIGN(const std::string message, peers.group().broadcast(said, 4));
  DL_TRY_ASSIGN(const std::string text, hear(message));
  const auto name = parse_checkpoint_name(text);
  if (!name) return Error{Errc::kInternal, "rank 0 chose the checkpoint '" + printable(text) + "'"};
  if (step != DLCKPT_LATEST && name->step != step)
    return Error{Errc::kInvalid, "rank 0 restores train step " + std::to_string(name->step) + ", this rank " +
                                     std::to_string(step) + ": all ranks must restore the same train step"};
  return *name;
}

// Only rank 0 calls this. Proposes the newest remaining checkpoint that looks whole; blocks are verified when they are
// read.
Result<CheckpointName> Restorer::propose(int64_t step, bool touched) {
  Proposal& p = proposal_;
  if (!p.any) {
    DL_TRY_ASSIGN(p.left, scan_checkpoints(io_, settings_.dir));
    std::reverse(p.left.begin(), p.left.end());
    if (step != DLCKPT_LATEST) {
      p.wish = " of train step " + std::to_string(step);
      const auto other = [&](const CheckpointName& name) { return name.step != step; };
      p.left.erase(std::remove_if(p.left.begin(), p.left.end(), other), p.left.end());
    }
    if (peeked_ && peeked_->step == step) {
      const auto same = [&](const CheckpointName& name) { return name.save_id == peeked_->save_id; };
      std::stable_partition(p.left.begin(), p.left.end(), std::not_fn(same));
    }
    p.any = !p.left.empty();
  }
  while (!p.left.empty()) {
    const CheckpointName name = p.left.back();
    p.left.pop_back();
    const auto known = bad_.find(name.save_id);
    if (step == DLCKPT_LATEST && known != bad_.end()) {
      pass_over(name, Error{Errc::kCorrupt, known->second});
      continue;
    }
    auto manifest = load_manifest(io_, settings_.dir, name);
    const Status whole =
        manifest ? check_files(io_, checkpoint_path(settings_.dir, name), *manifest) : Status(manifest.error());
    if (whole) {
      p.manifest = *std::move(manifest);
      return name;
    }
    if (whole.error().sys_errno == ENOMEM) return whole.error();
    pass_over(name, whole.error());
  }
  if (!p.any) return Error{Errc::kNotFound, "no checkpoint" + p.wish + " in " + settings_.dir};
  Error none{Errc::kCorrupt, "no checkpoint in " + settings_.dir + p.wish + " verifies: " + p.passed_over};
  if (touched) {
    none.text += "; what is registered has been changed in part";
    if (p.io_trouble) none.code = Errc::kIo;
  }
  return none;
}

Result<Manifest> Restorer::manifest_of(const CheckpointName& name) {
  std::optional<Manifest> proposed = std::exchange(proposal_.manifest, std::nullopt);
  if (proposed && proposed->name.save_id == name.save_id && proposed->name.step == name.step)
    return *std::move(proposed);
  return load_manifest(io_, settings_.dir, name);
}

void Restorer::pass_over(const CheckpointName& name, const Error& why) {
  proposal_.passed_over += (proposal_.passed_over.empty() ? "" : "; ") + std::string("passed over ") +
                           format_checkpoint_name(name) + ": " + why.text;
  if (why.code != Errc::kCorrupt) proposal_.io_trouble = true;
}

// Collective: all ranks report their outcome, and rank 0 answers with the common one. *answer receives, on kDone, what
// rank 0 composed from all texts.
Result<LoadEnd> Restorer::vote(Peers& peers, const CheckpointName& name, const LoadOutcome& mine,
                               const std::string& text, const Compose& compose, std::string* answer) {
  auto all =
      peers.group().gather(static_cast<char>(mine.end) + (mine.end == LoadEnd::kDone ? text : say_error(mine.error)));
  std::string said;
  if (peers.group().rank() == 0) {
    if (!all) {
      said = static_cast<char>(LoadEnd::kFailed) + say_error(all.error());
    } else {
      size_t worst = 0;
      const auto end_of = [&](size_t rank) { return (*all)[rank].empty() ? '?' : (*all)[rank][0]; };
      for (size_t rank = 1; rank < all->size(); ++rank)
        if (weight(end_of(rank)) > weight(end_of(worst))) worst = rank;
      if (weight(end_of(worst)) == 0) {
        for (std::string& one : *all) one.erase(0, 1);
        said = static_cast<char>(LoadEnd::kDone) + compose(*all);
      } else {
        auto heard = hear((*all)[worst].substr(std::min<size_t>(1, (*all)[worst].size())));
        Error error = heard ? Error{Errc::kInternal,
                                    "its message about the restore cannot be read; all ranks need the same libdlckpt"}
                            : std::move(heard).error();
        if (all->size() > 1) error.text = "rank " + std::to_string(worst) + ": " + error.text;
        if (end_of(worst) == static_cast<char>(LoadEnd::kBad)) {
          bad_[name.save_id] = error.text;
          pass_over(name, error);
        }
        const bool known = weight(end_of(worst)) <= weight(static_cast<char>(LoadEnd::kFailed));
        said = (known ? end_of(worst) : static_cast<char>(LoadEnd::kFailed)) + say_error(error);
      }
    }
  } else if (!all) {
    return std::move(all).error();
  }
  DL_TRY_ASSIGN(const std::string verdict, peers.group().broadcast(std::move(said), 4));
  if (verdict.empty() || weight(verdict[0]) > weight(static_cast<char>(LoadEnd::kFailed)))
    return Error{Errc::kInternal,
                 "a message of rank 0 about the restore cannot be read; all ranks need the same libdlckpt"};
  const auto end = static_cast<LoadEnd>(verdict[0]);
  *answer = verdict.substr(1);
  if (end != LoadEnd::kFailed) return end;
  auto heard = hear(*answer);
  return heard ? Error{Errc::kInternal,
                       "a message of rank 0 about the restore cannot be read; all ranks need the same libdlckpt"}
               : std::move(heard).error();
}

Result<Restorer::Next> Restorer::load_together(Peers& peers, const CheckpointName& name, bool blobs_only, bool alone,
                                               bool* touched, std::string* note) {
  Exchange* link = nullptr;
  if (!alone) {
    DL_TRY_ASSIGN(link, peers.exchange());
  }
  // Every rank says what it wants, and whether that fits the checkpoint.
  LoadOutcome mine;
  std::string wants;
  auto manifest = or_out_of_memory([&] { return manifest_of(name); });
  if (!manifest) {
    mine = outcome_of(manifest.error(), LoadEnd::kBad);
  } else if (!blobs_only) {
    const Status fits = or_out_of_memory([&]() -> Status {
      DL_TRY(check_fit(*manifest, registry_));
      wants = format_wants(*manifest, registry_);
      return {};
    });
    if (!fits) mine = LoadOutcome{LoadEnd::kFailed, fits.error()};
  }
  std::string answer;
  DL_TRY_ASSIGN(LoadEnd end, vote(
                                 peers, name, mine, wants,
                                 [&](const std::vector<std::string>& all) {
                                   return std::to_string(++loads_) + "\n" + join_texts(all);
                                 },
                                 &answer));
  if (end != LoadEnd::kDone) return Next::kOlder;

  // All ranks load.
  const bool blobs_known = !blobs_only && peeked_ && peeked_->save_id == name.save_id;
  std::map<std::string, std::string> blobs;
  if (blobs_known) blobs = blobs_;
  *touched = *touched || !blobs_only;
  mine = load_mine(peers, name, *manifest, answer, link, !blobs_known, &blobs);
  DL_TRY_ASSIGN(end,
                vote(
                    peers, name, mine, std::string(), [&](const auto&) { return proposal_.passed_over; }, &answer));
  if (end == LoadEnd::kBad) return Next::kOlder;
  if (end == LoadEnd::kPeers) {
    if (!link) return Error{Errc::kInternal, "ranks that read alone failed together"};
    return Next::kAlone;
  }
  *note = answer;
  blobs_ = std::move(blobs);
  if (!blobs_only) manifest_ = *std::move(manifest);
  return Next::kDone;
}

// `answer` consists of the number of this load, a newline, and what all ranks want.
LoadOutcome Restorer::load_mine(Peers& peers, const CheckpointName& name, const Manifest& manifest,
                                const std::string& answer, Exchange* link, bool with_blobs,
                                std::map<std::string, std::string>* blobs) {
  LoadCounts counts;
  auto loaded = or_out_of_memory([&]() -> Result<LoadOutcome> {
    const size_t line = answer.find('\n');
    DL_TRY_ASSIGN(const int64_t number, parse_int(std::string_view(answer).substr(0, line), 1, INT64_MAX));
    DL_TRY_ASSIGN(const std::vector<std::string> texts, split_texts(std::string_view(answer).substr(line + 1)));
    if (texts.size() != static_cast<size_t>(peers.group().size()))
      return Error{Errc::kInternal, "rank 0 told of " + std::to_string(texts.size()) + " ranks, and there are " +
                                        std::to_string(peers.group().size())};
    std::vector<Wants> wants;
    for (const std::string& text : texts) {
      DL_TRY_ASSIGN(Wants one, parse_wants(text, manifest));
      wants.push_back(std::move(one));
    }
    LoadOptions options;
    options.with_blobs = with_blobs;
    if (!link && peers.group().size() > 1) options.alone = peers.group().rank();
    const LoadPlan plan = plan_load(manifest, wants, options);
    // Blobs without bytes lie in no block, so they are added here.
    if (with_blobs)
      for (const BlobRecord& blob : manifest.blobs)
        if (blob.rank == -1 || blob.rank == peers.group().rank()) (*blobs)[blob.path] = std::string();
    stats_.needed_bytes = plan.bytes;
    stats_.exchange = link != nullptr;
    LoadJob job;
    job.io = &io_;
    job.checkpoint = checkpoint_path(settings_.dir, name);
    job.manifest = &manifest;
    job.plan = &plan;
    job.registry = &registry_;
    job.rank = peers.group().rank();
    job.exchange = link;
    job.channel = make_channel(ChannelKind::kRestore, static_cast<uint64_t>(number));
    job.threads = read_threads(peers.group().size());
    job.timeout_s = settings_.timeout_s;
    job.blobs = blobs;
    job.counts = &counts;
    return load(job);
  });
  stats_.read_bytes = counts.read;
  stats_.sent_bytes = counts.sent;
  stats_.received_bytes = counts.received;
  if (!loaded) return LoadOutcome{LoadEnd::kFailed, std::move(loaded).error()};
  return *std::move(loaded);
}

}  // namespace dl::ckpt
