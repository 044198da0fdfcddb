// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/repeat.h"

#include <utility>

namespace dl::supervise {
namespace {

struct Repeated {
  uv_timer_t timer{};
  std::function<bool()> step;
};

}  // namespace

void repeat(uv_loop_t* loop, uint64_t interval_ms, std::function<bool()> step) {
  auto* repeated = new Repeated;
  repeated->step = std::move(step);
  uv_timer_init(loop, &repeated->timer);
  repeated->timer.data = repeated;
  uv_timer_start(
      &repeated->timer,
      [](uv_timer_t* timer) {
        auto* self = static_cast<Repeated*>(timer->data);
        if (!self->step()) return;
        uv_timer_stop(timer);
        uv_close(reinterpret_cast<uv_handle_t*>(timer), [](uv_handle_t* h) { delete static_cast<Repeated*>(h->data); });
      },
      0, interval_ms);
}

}  // namespace dl::supervise
