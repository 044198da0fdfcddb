// SPDX-License-Identifier: Apache-2.0
// The measured program: holds a state and does with it what it is told, one line of JSON per order
// (lib/dlbench/worker.py).
//   driver TENSORS BYTES RANK WORLD divided|replicated
#include <fstream>
#include <iostream>
#include <optional>

#include "tests/bench/checkpoint/driver/limits.h"
#include "tests/bench/checkpoint/driver/ours.h"

namespace bench {
namespace {

uint64_t read_bytes_of_this_process() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  uint64_t value = 0;
  while (counters >> name >> value)
    if (name == "read_bytes:") return value;
  return 0;
}

class Driver {
 public:
  Driver(State& state, int rank, int world) : state_(state), ours_(state, rank, world) {}

  Json obey(const Json& order) {
    const auto op = order.at("op").get<std::string>();
    if (op == "open") return ours_.open(order);
    if (op == "save") return ours_.save(order);
    if (op == "lazy") return ours_.lazy(order);
    if (op == "restore") return ours_.restore(order);
    if (op == "close") return ours_.close(order);
    if (op == "hdf5_save") return {{"durable_s", hdf5_save(state_, order.at("path").get<std::string>())}};
    if (op == "hdf5_restore") return {{"restore_s", hdf5_restore(state_, order.at("path").get<std::string>())}};
    if (op == "copy") return copy(order);
    if (op == "touch") {
      state_.touch(order.value("tensors", SIZE_MAX));
      return Json::object();
    }
    if (op == "sum") return {{"sum", state_.sum()}};
    if (op == "facts") return {{"bytes", state_.bytes()}, {"read_bytes", read_bytes_of_this_process()}};
    return {{"error", "'" + op + "' is not an order"}};
  }

 private:
  Json copy(const Json& order) {
    if (!copier_) copier_.emplace(state_);
    return {{"copy_s", copier_->copy(order.at("threads").get<unsigned>())}};
  }

  State& state_;
  Ours ours_;
  std::optional<Copier> copier_;
};

int run(char** argv) {
  const int rank = std::stoi(argv[3]), world = std::stoi(argv[4]);
  State state(std::stoul(argv[1]), std::stoull(argv[2]), rank, world, std::string(argv[5]) == "replicated");
  Driver driver(state, rank, world);
  std::string line;
  while (std::getline(std::cin, line)) {
    Json answer;
    try {
      answer = driver.obey(Json::parse(line));
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: driver TENSORS BYTES RANK WORLD divided|replicated\n";
    return 2;
  }
  try {
    return bench::run(argv);
  } catch (const std::exception& error) {
    std::cerr << "driver: " << error.what() << '\n';
    return 1;
  }
}
