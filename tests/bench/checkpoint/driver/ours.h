// SPDX-License-Identifier: Apache-2.0
// libdlckpt as a program uses it: contexts by name, each with the whole state registered.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/include/dlckpt.h"
#include "tests/bench/checkpoint/driver/state.h"

namespace bench {

using Json = nlohmann::json;

class Ours {
 public:
  Ours(State& state, int rank, int world) : state_(state), rank_(rank), world_(world) {}
  ~Ours();
  Ours(const Ours&) = delete;
  Ours& operator=(const Ours&) = delete;

  // All throw std::runtime_error with the library's sentence.
  Json open(const Json& order);     // id, dir, run_id, keep, environment {name: value} for the time of dlckpt_open
  Json save(const Json& order);     // id, step -> blocked_s (until the state may change), durable_s
  Json lazy(const Json& order);     // id, step, work_s (computing that only reads the state) -> blocked_s, durable_s
  Json restore(const Json& order);  // id -> restore_s; the state is clobbered before
  Json close(const Json& order);    // id

 private:
  dlckpt_ctx* find(const Json& order) const;
  static void check(dlckpt_ctx* context, int code, const char* doing);

  State& state_;
  int rank_, world_;
  std::map<std::string, dlckpt_ctx*> contexts_;
};

}  // namespace bench
