/* SPDX-License-Identifier: Apache-2.0
 *
 * dlckpt_batch.hpp: the functions of dlckpt_batch.h for C++17 and later. There is nothing to link but the C library.
 *
 *     auto batch = dlckpt::Batch::find(64);
 *     if (!batch) die(batch.message());
 *     while (cursor < total) {
 *       const auto step = batch->step(total - cursor);
 *       for (std::int64_t pass = 0; pass < step.accumulation(); ++pass) train_on(cursor, step.part(pass));
 *       cursor += step.size();
 *     }
 *
 * Nothing throws, except that the standard library throws std::bad_alloc when memory runs out.
 */
#ifndef DLCKPT_BATCH_HPP
#define DLCKPT_BATCH_HPP

#include "dlckpt.hpp"
#include "dlckpt_batch.h"

namespace dlckpt {

/* A global batch, and how it is divided. Can be copied. */
class Batch {
 public:
  /* Consecutive samples of a train step. */
  struct Part {
    std::int64_t first = 0, count = 0;
  };

  /* own 0: none. world_size 0: rank and world size are taken from the environment. */
  static Result<Batch> find(std::int64_t own = 0, int rank = 0, int world_size = 0) {
    Batch found;
    if (const dlckpt_error code = dlckpt_batch_find(own, rank, world_size, &found.c_); code != DLCKPT_OK)
      return Status(code, dlckpt_open_error());
    return {found, Status()};
  }

  std::int64_t size() const noexcept { return c_.batch; } /* of all learners together */
  std::int64_t local_size() const noexcept { return c_.local_batch; }
  std::int64_t accumulation() const noexcept { return c_.accumulation; }
  double lr_scale(double noise = -1) const noexcept { return dlckpt_batch_lr_scale(&c_, noise); }
  bool chosen() const noexcept { return c_.chosen != 0; }

  /* The train step if `left` samples are left; -1: training has no end. For 0 and other negative numbers it is the
   * whole batch. */
  Batch step(std::int64_t left) const noexcept {
    Batch next = *this;
    static_cast<void>(dlckpt_batch_step(&c_, left, &next.c_));
    return next;
  }
  /* Empty for a pass that the train step does not have. */
  Part part(std::int64_t pass) const noexcept {
    Part part;
    static_cast<void>(dlckpt_batch_part(&c_, pass, &part.first, &part.count));
    return part;
  }
  const dlckpt_batch& get() const noexcept { return c_; }

 private:
  Batch() noexcept { c_.struct_size = sizeof c_; }
  dlckpt_batch c_{};
};

}  // namespace dlckpt

#endif /* DLCKPT_BATCH_HPP */
