// SPDX-License-Identifier: Apache-2.0
// The learner's side of the progress page (common/contract/progress_page.h describes the protocol).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/contract/progress_page.h"

namespace dl::ckpt {

class ProgressLink {
 public:
  // Maps the page. nullopt if there is no such file (a learner started elsewhere with a copied environment); kInvalid
  // if it is not a page of this version.
  static Result<std::optional<ProgressLink>> attach(const std::string& path);
  // For tests: uses a page in memory, which is not unmapped.
  explicit ProgressLink(ProgressPage* page) : page_(page) {}
  ProgressLink(ProgressLink&& other) noexcept;
  ProgressLink& operator=(ProgressLink&&) = delete;
  ProgressLink(const ProgressLink&) = delete;
  ProgressLink& operator=(const ProgressLink&) = delete;
  ~ProgressLink();

  // Announces train step `step`. If dlrun has a request, waits until its train step is decided, at most timeout_s (then
  // kNone). Returns what to do now, before `step` is run.
  ProgressPage::Request announce(int64_t step, double timeout_s);
  void set_state(ProgressPage::State state);
  ProgressPage::State state() const;
  // Predicted durations of saves, in seconds; 0 = unknown.
  void set_predictions(double durable_s, double local_s, double cost_s);
  // The program's gradient noise scale in samples. A negative or not finite value is ignored.
  void set_noise(double samples);
  // Newest train step that this learner knows to be committed.
  void set_saved_step(int64_t step);
  // Bytes of the newest checkpoint have moved to the object store.
  void note_sending();
  // Whether dlrun has asked for a stop, which may have been withdrawn since training is over.
  bool stop_asked() const;

 private:
  ProgressLink(ProgressPage* page, bool mapped) : page_(page), mapped_(mapped) {}
  ProgressPage* page_;
  bool mapped_ = false;
};

}  // namespace dl::ckpt
