// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/checkpoint/driver/ours.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "tests/bench/checkpoint/driver/clock.h"

namespace bench {
namespace {

// Memory of this process that is in RAM now.
uint64_t resident_bytes() {
  std::ifstream sizes("/proc/self/statm");
  uint64_t pages = 0;
  sizes >> pages >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

Ours::~Ours() {
  for (auto& [id, context] : contexts_) dlckpt_close(context);
}

dlckpt_ctx* Ours::find(const Json& order) const {
  const auto found = contexts_.find(order.at("id").get<std::string>());
  if (found == contexts_.end())
    throw std::runtime_error("no context '" + order.at("id").get<std::string>() + "' is open");
  return found->second;
}

void Ours::check(dlckpt_ctx* context, int code, const char* doing) {
  if (code == DLCKPT_OK) return;
  throw std::runtime_error(std::string(doing) + ": " + dlckpt_error_name(code) + ": " + dlckpt_errmsg(context));
}

Json Ours::open(const Json& order) {
  const auto id = order.at("id").get<std::string>();
  if (contexts_.count(id) != 0) throw std::runtime_error("context '" + id + "' is open already");
  const auto dir = order.at("dir").get<std::string>();
  const auto run_id = order.at("run_id").get<std::string>();
  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.dir = dir.c_str();
  options.rank = rank_;
  options.world_size = world_;
  options.run_id = run_id.c_str();
  options.keep = order.value("keep", 2);
  options.timeout_s = 120;
  const auto environment = order.value("environment", std::map<std::string, std::string>{});
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  dlckpt_ctx* context = nullptr;
  const int code = dlckpt_open(&options, &context);
  for (const auto& [name, value] : environment) unsetenv(name.c_str());
  if (code != DLCKPT_OK) throw std::runtime_error(std::string("open: ") + dlckpt_open_error());
  contexts_[id] = context;
  const uint64_t before = resident_bytes();
  const auto begin = Clock::now();
  for (Tensor& tensor : state_.tensors()) {
    const bool whole = state_.replicated();
    check(context,
          dlckpt_tensor(context, tensor.name.c_str(), DLCKPT_F32, static_cast<int>(tensor.shape.size()),
                        tensor.shape.data(), whole ? nullptr : tensor.offset.data(),
                        whole ? nullptr : tensor.extent.data(), tensor.data.get(),
                        whole ? unsigned{DLCKPT_REPLICATED} : 0U),
          "register");
  }
  const double seconds = seconds_since(begin);
  const uint64_t after = resident_bytes();
  return {{"register_s", seconds}, {"registered_bytes", after > before ? after - before : 0}};
}

Json Ours::save(const Json& order) {
  dlckpt_ctx* context = find(order);
  const auto begin = Clock::now();
  check(context, dlckpt_save(context, order.at("step").get<int64_t>()), "save");
  const double blocked = seconds_since(begin);
#if DLCKPT_API_VERSION >= 2
  check(context, dlckpt_wait(context, 300, nullptr), "wait");
#endif
  Json answer{{"blocked_s", blocked}, {"durable_s", seconds_since(begin)}};
#if DLCKPT_API_VERSION >= 2
  // Where the time went, for whoever looks for it.
  dlckpt_save_stats stats{};
  stats.struct_size = sizeof stats;
  check(context, dlckpt_stats(context, &stats), "stats");
  answer.update({{"copy_s", stats.copy_s},
                 {"write_s", stats.write_s},
                 {"fsync_s", stats.fsync_s},
                 {"commit_s", stats.commit_s},
                 {"written_bytes", stats.written_bytes},
                 {"reused_bytes", stats.reused_bytes}});
#endif
  return answer;
}

Json Ours::lazy(const Json& order) {
#if DLCKPT_API_VERSION >= 2
  dlckpt_ctx* context = find(order);
  const auto begin = Clock::now();
  check(context, dlckpt_save_flags(context, order.at("step").get<int64_t>(), DLCKPT_LAZY), "save");
  double blocked = seconds_since(begin);
  compute(order.at("work_s").get<double>());
  const auto after = Clock::now();
  check(context, dlckpt_before_mutation(context), "before mutation");
  blocked += seconds_since(after);
  check(context, dlckpt_wait(context, 300, nullptr), "wait");
  return {{"blocked_s", blocked}, {"durable_s", seconds_since(begin)}};
#else
  (void)order;
  return {{"unavailable", "this libdlckpt has no lazy saves"}};
#endif
}

Json Ours::restore(const Json& order) {
  dlckpt_ctx* context = find(order);
  state_.clobber();
  int64_t step = -1;
  const auto begin = Clock::now();
  check(context, dlckpt_restore(context, DLCKPT_LATEST, &step), "restore");
  return {{"restore_s", seconds_since(begin)}, {"step", step}};
}

Json Ours::close(const Json& order) {
  dlckpt_close(find(order));
  contexts_.erase(order.at("id").get<std::string>());
  return Json::object();
}

}  // namespace bench
