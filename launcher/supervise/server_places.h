// SPDX-License-Identifier: Apache-2.0
// The places of an elastic pool of parameter servers (LaunchPlan::pool): at which of them a server is started, and what
// the end of one means for the run. Pure: callers pass times of the awake clock, and what the pool's directory knows.
//
// The rule. The directory says how many servers are wanted, and tells those that are too many to leave. Here the
// missing ones are started, each at the free place on whose node the fewest run. A server that leaves because it was
// told to, or after it has served for kServedMs, is none that failed. Any other end is a failure: the next server is
// started after a pause, which doubles. What fails during the pause was started before it, so that it has the same
// cause, such as a lost node: it does not count again. Before all MIN servers have joined, a failure is the run's,
// since a program that cannot serve would be started again and again. After kMostFailures in a row, between which no
// server has served for kSoundMs, the pause is kAgainMs. The run fails where fewer than MIN servers run and none is
// started for so long, or fewer than MIN places are left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/supervise/first_cause.h"

namespace dl::supervise {

class ServerPlaces {
 public:
  static constexpr int64_t kServedMs = 10'000;
  static constexpr int64_t kSoundMs = 30'000;
  static constexpr int kMostFailures = 5;
  static constexpr int64_t kAgainMs = 300'000;

  // What the directory knows (pool/directory.h).
  struct Pool {
    int members = 0;  // that have joined and are not about to leave
    int leaving = 0;  // that are about to leave, or have just left
    int wanted = 0;   // MIN at least
  };

  ServerPlaces() = default;
  // node_of: of each place, by its number. All places are awaited at first: free() says that an agent waits there.
  ServerPlaces(std::vector<int> node_of, int min);

  void free(int place);
  // The places at which servers are to be started now. They count as running from here on.
  std::vector<int> start(const Pool& pool, int64_t now_ms);

  enum class End {
    kLeft,      // it was to leave
    kFailed,    // the pool goes on, and another server is started if it is wanted
    kTooOften,  // the same, but no more servers are started before not_before_ms()
    kFailsRun,  // the run cannot go on
  };
  // A server has ended; well: with status 0. The place is awaited again.
  End ended(int place, bool well, const Pool& pool, int64_t now_ms);
  // The place cannot be used any more, since its agent is lost. none: no server ran there, so that this is no failure
  // unless the places that are left are too few (kFailsRun).
  struct Loss {
    bool none = false;
    End end = End::kFailed;
  };
  Loss lost(int place, const Pool& pool, int64_t now_ms);

  int running() const;
  int left() const;                                         // places that are not lost
  int64_t not_before_ms() const { return not_before_ms_; }  // no server is started before; may have passed
  bool runs(int place) const { return places_[static_cast<size_t>(place)].what == What::kRunning; }

 private:
  enum class What { kAwaited, kFree, kRunning, kLost };
  struct Place {
    int node = 0;
    What what = What::kAwaited;
    int64_t since_ms = 0;  // kRunning
  };
  void note(const Pool& pool, int64_t now_ms);
  End judge(bool well, int64_t served_ms, int running_before, const Pool& pool, int64_t now_ms);
  int best_free() const;

  std::vector<Place> places_;
  int min_ = 0;
  bool begun_ = false;  // MIN servers have been there together
  int failures_ = 0;    // in a row
  int64_t failed_ms_ = 0, not_before_ms_ = 0;
};

// Which failure the run has when the pool has lost state. dlrun and the directory hear of a server's end in any order,
// so the failure that came within kEndMs before or after is awaited. If none comes, a server lives that the directory
// gave up because it said nothing.
class LostState {
 public:
  static constexpr int64_t kEndMs = 1000;

  void failed(Failure failure, int64_t now_ms);  // a server
  // lost: of the pool's slots. None: nothing is lost, or the failure is still awaited.
  std::optional<Failure> cause(int lost, int64_t now_ms);

 private:
  std::optional<Failure> last_;
  std::optional<int64_t> since_ms_;  // when state was first seen to be lost
};

// "the pool has lost the state of 12 of its 1024 slots"
std::string lost_text(int lost);

}  // namespace dl::supervise
