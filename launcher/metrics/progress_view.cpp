// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/progress_view.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/unique_fd.h"

namespace dl::metrics {

ProgressView::~ProgressView() {
  if (page_ != nullptr) ::munmap(const_cast<ProgressPage*>(page_), kProgressPageBytes);
}

void ProgressView::open(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status = {};
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < kProgressPageBytes) return;
  void* page = ::mmap(nullptr, kProgressPageBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (page == MAP_FAILED) return;
  page_ = static_cast<const ProgressPage*>(page);
}

PageView ProgressView::read() const {
  PageView view;
  if (page_ == nullptr || page_->magic != ProgressPage::kMagic) return view;
  view.state = page_->state.load(std::memory_order_acquire);
  view.attached = view.state != ProgressPage::kNotAttached;
  if (!view.attached) return view;
  view.step = std::max(kNoStep, page_->step.load(std::memory_order_acquire));
  view.saved_step = std::max(kNoStep, page_->saved_step.load(std::memory_order_acquire));
  view.save_ms = page_->save_ms.load(std::memory_order_acquire);
  view.cost_ms = page_->cost_ms.load(std::memory_order_acquire);
  return view;
}

void Rates::look(const PageView& page, int64_t now_ms, bool last, std::vector<Found>* found) {
  const auto add = [&](const char* name, double value) {
    found->push_back({std::string(kLauncher), name, value, page.step, now_ms, true});
  };
  if (!page.attached || page.step < 0) return;
  if (!from_ms_ || page.step < from_step_) {
    from_ms_ = now_ms;
    from_step_ = page.step;
    saved_step_ = page.saved_step;
    return;
  }
  const int64_t passed = now_ms - *from_ms_;
  if (passed < 0) {  // the clock was set back
    from_ms_ = now_ms;
    from_step_ = page.step;
  }
  if (passed >= kEveryMs || (last && passed >= kLeastMs)) {
    const double rate = static_cast<double>(page.step - from_step_) * 1000 / static_cast<double>(passed);
    add("train_steps_per_s", rate);
    if (batch_ > 0) add("samples_per_s", rate * static_cast<double>(batch_));
    from_ms_ = now_ms;
    from_step_ = page.step;
  }
  if (page.saved_step != saved_step_) {
    saved_step_ = page.saved_step;
    if (page.save_ms > 0) add("save_s", static_cast<double>(page.save_ms) / 1000);
    if (page.cost_ms > 0) add("save_cost_s", static_cast<double>(page.cost_ms) / 1000);
  }
}

}  // namespace dl::metrics
