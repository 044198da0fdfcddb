// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/progress_link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "checkpoint/group/deadline.h"
#include "common/base/unique_fd.h"

namespace dl::ckpt {

Result<std::optional<ProgressLink>> ProgressLink::attach(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<ProgressLink>();
    return errno_error("open the progress page " + path, errno);
  }
  struct stat st {};
  if (::fstat(fd.get(), &st) < 0) return errno_error("stat the progress page " + path, errno);
  if (st.st_size < static_cast<off_t>(kProgressPageBytes))  // access beyond the end of the file would raise SIGBUS
    return Error{Errc::kInvalid, "the progress page " + path + " is too short: it has " + std::to_string(st.st_size) +
                                     " of " + std::to_string(kProgressPageBytes) + " bytes"};
  void* memory = ::mmap(nullptr, kProgressPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return errno_error("map the progress page " + path, errno);
  auto* page = static_cast<ProgressPage*>(memory);
  std::optional<ProgressLink> link(ProgressLink(page, true));
  if (page->magic != ProgressPage::kMagic || page->version != ProgressPage::kVersion)
    return Error{Errc::kInvalid, "the progress page " + path + " is of another version of slurm-dl: " +
                                     "dlrun and libdlckpt must be of the same"};
  return link;
}

ProgressLink::ProgressLink(ProgressLink&& other) noexcept
    : page_(std::exchange(other.page_, nullptr)), mapped_(std::exchange(other.mapped_, false)) {}

ProgressLink::~ProgressLink() {
  if (mapped_) ::munmap(page_, kProgressPageBytes);
}

ProgressPage::Request ProgressLink::announce(int64_t step, double timeout_s) {
  // The store comes before the load, both sequentially consistent: see progress_page.h.
  page_->step.store(step, std::memory_order_seq_cst);
  uint32_t seq = page_->seq.load(std::memory_order_seq_cst);
  if (seq == page_->seen_seq.load(std::memory_order_relaxed)) return ProgressPage::kNone;
  Deadline deadline(timeout_s);
  Pause pause;
  for (int spins = 0;; ++spins) {
    const int64_t stop_step = page_->stop_step.load(std::memory_order_seq_cst);
    const auto kind = static_cast<ProgressPage::Request>(page_->kind.load(std::memory_order_seq_cst));
    const uint32_t again = page_->seq.load(std::memory_order_seq_cst);
    if (again == seq && stop_step != ProgressPage::kUndecided) {
      if (step < stop_step) return ProgressPage::kNone;  // the request stays open
      page_->seen_seq.store(seq, std::memory_order_seq_cst);
      return kind;
    }
    seq = again;  // a newer request has replaced it, and its train step counts
    if (deadline.passed()) return ProgressPage::kNone;
    if (spins > 100) pause.wait();
  }
}

void ProgressLink::set_state(ProgressPage::State state) {
  page_->state.store(state, std::memory_order_seq_cst);
}
ProgressPage::State ProgressLink::state() const {
  return static_cast<ProgressPage::State>(page_->state.load(std::memory_order_seq_cst));
}
void ProgressLink::set_predictions(double durable_s, double local_s, double cost_s) {
  const auto milliseconds = [](double s) { return s > 0 ? std::max<uint64_t>(static_cast<uint64_t>(s * 1000), 1) : 0; };
  page_->save_ms.store(milliseconds(durable_s), std::memory_order_seq_cst);
  page_->local_ms.store(milliseconds(local_s), std::memory_order_seq_cst);
  page_->cost_ms.store(milliseconds(cost_s), std::memory_order_seq_cst);
}
void ProgressLink::set_noise(double samples) {
  constexpr double kMost = 1e9;
  if (!(samples >= 0)) return;
  page_->noise.store(static_cast<uint64_t>(std::min(samples, kMost)) + 1, std::memory_order_seq_cst);
}
void ProgressLink::set_saved_step(int64_t step) {
  page_->saved_step.store(step, std::memory_order_seq_cst);
}
void ProgressLink::note_sending() {
  page_->sending.fetch_add(1, std::memory_order_seq_cst);
}
bool ProgressLink::stop_asked() const {
  return page_->stop_asked.load(std::memory_order_seq_cst) != 0;
}

}  // namespace dl::ckpt
