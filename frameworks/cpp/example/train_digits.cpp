// SPDX-License-Identifier: Apache-2.0
// Plain C++ learners without any framework: softmax regression on the UCI handwritten digits. Learner r of W has every
// W-th image. Learner 0 adds the gradients up; the others connect to it at the port that its agent holds.
//
//   python3 -c 'from sklearn.datasets import load_digits
//   for image, digit in zip(*load_digits(return_X_y=True)): print(digit, *map(int, image))' >digits.txt
//   c++ -std=c++17 -O2 train_digits.cpp -o train_digits
//   dlrun --framework cpp --learners 4 -- ./train_digits digits.txt [STEPS]
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kPixels = 64, kDigits = 10;

[[noreturn]] void fail(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

// Adds vectors over all learners, through learner 0.
class Sum {
 public:
  Sum(int rank, int size) : rank_(rank) {
    const std::string peers = variable("DL_PEERS", "");
    if (size == 1) return;
    if (peers.empty()) {
      std::fputs("DL_PEERS is not set: start this program with dlrun --framework cpp -- ./train_digits\n", stderr);
      std::exit(2);
    }
    const std::string first = peers.substr(0, peers.find(','));
    const size_t colon = first.rfind(':');
    std::string host = first.substr(0, colon);
    if (host[0] == '[') host = host.substr(1, host.size() - 2);
    if (rank == 0) {
      listen_for(first.substr(colon + 1), size);
    } else {
      connect_to(host, first.substr(colon + 1));
    }
  }
  ~Sum() {
    for (const int fd : connections_) ::close(fd);
  }
  Sum(const Sum&) = delete;
  Sum& operator=(const Sum&) = delete;

  // Replaces the values by their sums, which are added in the order of ranks and are the same on all learners.
  void over_all(std::vector<double>* values) {
    const size_t bytes = values->size() * sizeof(double);
    std::vector<double> other(values->size());
    if (rank_ > 0) move(connections_[0], values->data(), bytes, true);
    for (size_t i = 0; rank_ == 0 && i < connections_.size(); ++i) {
      move(connections_[i], other.data(), bytes, false);
      for (size_t k = 0; k < other.size(); ++k) (*values)[k] += other[k];
    }
    for (const int fd : connections_) move(fd, values->data(), bytes, rank_ == 0);
  }

 private:
  struct Greeting {  // names the run and the learner, since any program can connect
    char run[64] = "";
    int rank = 0;
  };
  static Greeting greeting(int rank) {
    Greeting own;
    std::snprintf(own.run, sizeof own.run, "%s", variable("DL_RUN_ID", "").c_str());
    own.rank = rank;
    return own;
  }

  static void move(int fd, void* data, size_t bytes, bool out) {
    for (size_t done = 0; done < bytes;) {
      char* at = static_cast<char*>(data) + done;
      const ssize_t n = out ? ::send(fd, at, bytes - done, MSG_NOSIGNAL) : ::recv(fd, at, bytes - done, 0);
      if (n <= 0) fail("another learner has closed its connection");
      done += static_cast<size_t>(n);
    }
  }

  static addrinfo* find(const char* host, const std::string& port) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
    if (::getaddrinfo(host, port.c_str(), &hints, &found) != 0) fail("find the address of learner 0, port " + port);
    return found;
  }

  void listen_for(const std::string& port, int size) {
    addrinfo* address = find(nullptr, port);
    const int one = 1, listener = ::socket(address->ai_family, SOCK_STREAM, 0);
    // The agent holds the port; with this option the learner can bind to it all the same.
    ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (::bind(listener, address->ai_addr, address->ai_addrlen) != 0 || ::listen(listener, size) != 0)
      fail("listen on port " + port);
    ::freeaddrinfo(address);
    connections_.assign(static_cast<size_t>(size) - 1, -1);
    for (int open = 1; open < size;) {
      const int fd = ::accept(listener, nullptr, nullptr);
      if (fd < 0) fail("accept the connection of a learner");
      Greeting other;
      const bool whole = ::recv(fd, &other, sizeof other, MSG_WAITALL) == static_cast<ssize_t>(sizeof other);
      const bool known = whole && std::equal(std::begin(other.run), std::end(other.run), greeting(0).run) &&
                         other.rank > 0 && other.rank < size && connections_[static_cast<size_t>(other.rank) - 1] < 0;
      if (!known) {
        ::close(fd);
        continue;
      }
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      connections_[static_cast<size_t>(other.rank) - 1] = fd;
      ++open;
    }
    ::close(listener);
  }

  void connect_to(const std::string& host, const std::string& port) {
    addrinfo* address = find(host.c_str(), port);
    for (int tries = 0;; ++tries) {
      const int one = 1, fd = ::socket(address->ai_family, SOCK_STREAM, 0);
      if (::connect(fd, address->ai_addr, address->ai_addrlen) == 0) {
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        connections_.push_back(fd);
        break;
      }
      ::close(fd);
      if (tries == 600) fail("connect to learner 0 within a minute");  // after a minute
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    ::freeaddrinfo(address);
    Greeting own = greeting(rank_);
    move(connections_[0], &own, sizeof own, true);
  }

  int rank_;
  std::vector<int> connections_;  // learner 0: the connection to learner i + 1; others: the one to learner 0
};

struct Image {
  int digit = 0;
  double pixels[kPixels] = {};
};

std::vector<double> probabilities(const std::vector<double>& weights, const Image& image) {
  std::vector<double> p(kDigits);
  double sum = 0;
  for (int d = 0; d < kDigits; ++d) {
    const double* row = &weights[static_cast<size_t>(d) * kPixels];
    double score = 0;
    for (int k = 0; k < kPixels; ++k) score += row[k] * image.pixels[k];
    sum += p[static_cast<size_t>(d)] = std::exp(score);
  }
  for (double& value : p) value /= sum;
  return p;
}

}  // namespace

int main(int argc, char** argv) {
  const int rank = std::atoi(variable("DL_RANK", "0").c_str());
  const int size = std::atoi(variable("DL_WORLD_SIZE", "1").c_str());
  const int steps = argc > 2 ? std::atoi(argv[2]) : 200;
  std::ifstream file(argc > 1 ? argv[1] : "digits.txt");
  std::vector<Image> train, held_out;
  int number = 0;
  for (Image image; file >> image.digit; ++number) {
    for (double& pixel : image.pixels) {
      file >> pixel;
      pixel /= 16;
    }
    if (number % 5 == 0) {
      held_out.push_back(image);
    } else if (number % size == rank) {
      train.push_back(image);
    }
  }
  if (number == 0 || !file.eof()) fail("read the file of digits to its end");

  Sum sum(rank, size);
  std::vector<double> weights(static_cast<size_t>(kDigits) * kPixels, 0.0);
  for (int step = 0; step < steps; ++step) {
    std::vector<double> gradient(weights.size() + 1, 0.0);  // the last element counts images
    for (const Image& image : train) {
      std::vector<double> error = probabilities(weights, image);
      error[static_cast<size_t>(image.digit)] -= 1;
      for (size_t i = 0; i < weights.size(); ++i) gradient[i] += error[i / kPixels] * image.pixels[i % kPixels];
    }
    gradient.back() = static_cast<double>(train.size());
    sum.over_all(&gradient);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.5 * gradient[i] / gradient.back();
  }
  if (rank == 0) {
    size_t right = 0;
    for (const Image& image : held_out) {
      const std::vector<double> p = probabilities(weights, image);
      right += std::max_element(p.begin(), p.end()) - p.begin() == image.digit ? 1 : 0;
    }
    std::printf("held-out accuracy: %.2f %% with %d learners\n",
                100.0 * static_cast<double>(right) / static_cast<double>(held_out.size()), size);
  }
  return 0;
}
