// SPDX-License-Identifier: Apache-2.0
// The PMIx server of one node: libpmix on one side, dlrun's messages on the other. libpmix calls it on a thread of its
// own (upcalls.cpp), the caller calls handle() on another. One object in a process, since libpmix allows only one
// server.
#pragma once

#include <pmix_server.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/pmix/messages.h"

namespace dl::pmix {

class Server {
 public:
  // send: hands a message to dlrun; called from any thread, must not call this object.
  explicit Server(std::function<void(const PmixMessage&)> send) : send_(std::move(send)) {}
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  // folder: for libpmix's files and the learners' session directories; the caller removes it. node: name of this node.
  // kIo with libpmix's reason.
  Status start(const std::string& folder, const std::string& node);
  // Handles a message of dlrun's. The first is Job, answered by Ready; if it fails (kInvalid, kIo), no learner can be
  // served. Others never fail.
  Status handle(const PmixMessage& message);

  // The rest is for the upcalls. A question of libpmix's that dlrun has not answered yet.
  struct Pending {  // exactly one of the functions is set
    pmix_modex_cbfunc_t modex = nullptr;
    pmix_op_cbfunc_t op = nullptr;
    pmix_lookup_cbfunc_t lookup = nullptr;
    void* data = nullptr;
    std::string parts;  // data of a fence that have come so far
  };
  int64_t open(const Pending& pending);  // returns the number for the message to dlrun
  void send(const PmixMessage& message) { send_(message); }
  // Whether a process is a learner of this attempt.
  bool own_space(const pmix_proc_t& named) const;
  int rank_of(const pmix_proc_t& named) const;  // -1: none of them

 private:
  Status register_job(const Job& job);
  Status register_learner(int rank, std::map<std::string, std::string>* environment);
  bool take(int64_t id, Pending* pending);
  void on_part(const FencePart& part);
  void on_done(const Done& done);
  void on_got(const Got& got);
  void on_found(const Found& found);
  void on_get(const Get& get);
  void on_lost(const Lost& lost);
  void on_event(const Event& event);

  std::function<void(const PmixMessage&)> send_;
  bool running_ = false;
  std::string folder_;
  Job job_;
  std::mutex mutex_;
  int64_t next_ = 1;
  std::map<int64_t, Pending> pending_;
};

// The functions that libpmix calls, for this server.
pmix_server_module_t* upcalls(Server* server);

// Pack arguments of libpmix into bytes that only libpmix reads, and unpack them. False: they are malformed.
Bytes pack(const pmix_info_t* info, size_t count);
Bytes pack(const pmix_value_t& value);
bool unpack(const Bytes& bytes, std::vector<pmix_info_t>* info, int count);
bool unpack(const Bytes& bytes, pmix_value_t* value);

}  // namespace dl::pmix
