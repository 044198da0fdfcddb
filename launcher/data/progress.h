// SPDX-License-Identifier: Apache-2.0
// How far a transfer is: counted by its threads, written to a file that dlrun reads, and drawn on a terminal.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "common/json/json.h"

namespace dl::data {

struct Counts {
  std::atomic<uint64_t> total{0}, all_files{0};  // what is to be there in the end
  std::atomic<uint64_t> bytes{0}, files{0};      // what is there
  std::atomic<uint64_t> resumed{0};  // of `bytes`, what was there before: of an earlier try, or of the cache
  std::atomic<uint64_t> fetched{0};  // bytes that came from the source, also those that came twice
};

class Progress {
 public:
  enum class State { kListing, kFetching, kStoring, kDone };

  // file: written by a thread once a second, atomically; empty: none. A bar is drawn if stderr is a terminal and the
  // work takes long.
  explicit Progress(std::string file);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  Counts counts;
  void state(State state);
  // {"state":"fetching","bytes":N,"total":N,"files":N,"all_files":N,"rate":N,"resumed":N,"fetched":N}
  Json json() const;
  // Writes the file now; done() ends the thread.
  void done();

 private:
  void run();
  void write() const;

  const std::string file_;
  std::atomic<State> state_{State::kListing};
  std::atomic<uint64_t> rate_{0};  // bytes a second, over the last seconds
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace dl::data
