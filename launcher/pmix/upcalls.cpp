// SPDX-License-Identifier: Apache-2.0
// The functions that libpmix calls in its host, on its own thread. Each turns a request into a message to dlrun, whose
// answer comes later (server.cpp); none of them waits. libpmix is C, so no exception may reach it.
#include <pmix_server.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "launcher/pmix/server.h"

namespace dl::pmix {
namespace {

Server* the_server = nullptr;

template <typename Body>
pmix_status_t guarded(Body body) noexcept {
  try {
    return body();
  } catch (...) {
    return PMIX_ERR_NOMEM;
  }
}

// A text from a learner, cut to the length that a message may have.
std::string text_of(const char* text) {
  return text == nullptr ? std::string() : std::string(text, ::strnlen(text, kMaxText));
}

std::vector<std::string> texts_of(char** list) {
  std::vector<std::string> texts;
  for (; list != nullptr && *list != nullptr; ++list) texts.push_back(text_of(*list));
  return texts;
}

// The callback that gets dlrun's answer.
Server::Pending pending(pmix_modex_cbfunc_t answer, void* data) {
  return {answer, nullptr, nullptr, data, {}};
}
Server::Pending pending(pmix_op_cbfunc_t answer, void* data) {
  return {nullptr, answer, nullptr, data, {}};
}
Server::Pending pending(pmix_lookup_cbfunc_t answer, void* data) {
  return {nullptr, nullptr, answer, data, {}};
}

pmix_status_t on_connected(const pmix_proc_t* process, void* /*object*/, pmix_op_cbfunc_t /*answer*/, void* /*data*/) {
  return guarded([&] {
    the_server->send(Client{the_server->rank_of(*process), true});
    return PMIX_OPERATION_SUCCEEDED;
  });
}

pmix_status_t on_finalized(const pmix_proc_t* process, void* /*object*/, pmix_op_cbfunc_t /*answer*/, void* /*data*/) {
  return guarded([&] {
    the_server->send(Client{the_server->rank_of(*process), false});
    return PMIX_OPERATION_SUCCEEDED;
  });
}

pmix_status_t on_abort(const pmix_proc_t* process, void* /*object*/, int status, const char message[],
                       pmix_proc_t /*others*/[], size_t /*count*/, pmix_op_cbfunc_t answer, void* data) {
  return guarded([&] {
    // The learner may end only when dlrun knows why.
    the_server->send(
        Abort{the_server->open(pending(answer, data)), the_server->rank_of(*process), status, text_of(message)});
    return PMIX_SUCCESS;
  });
}

// The ranks of a set of processes, in ascending order; empty for all ranks of the attempt. False if the set contains
// processes that do not belong to it.
bool ranks_of(const pmix_proc_t processes[], size_t count, std::vector<int>* ranks) {
  for (size_t i = 0; i < count; ++i) {
    const int rank = the_server->rank_of(processes[i]);
    if (processes[i].rank == PMIX_RANK_WILDCARD) {
      if (count != 1 || !the_server->own_space(processes[i])) return false;
      ranks->clear();
      return true;
    }
    if (rank < 0) return false;
    ranks->push_back(rank);
  }
  std::sort(ranks->begin(), ranks->end());
  return count > 0 && std::adjacent_find(ranks->begin(), ranks->end()) == ranks->end();
}

pmix_status_t join(const char* kind, const pmix_proc_t processes[], size_t count, std::string bytes,
                   const Server::Pending& answer) {
  Fence fence;
  fence.kind = kind;
  if (!ranks_of(processes, count, &fence.ranks)) return PMIX_ERR_NOT_SUPPORTED;
  if (bytes.size() > kMaxData) return PMIX_ERR_OUT_OF_RESOURCE;
  fence.data.bytes = std::move(bytes);
  fence.id = the_server->open(answer);
  the_server->send(fence);
  return PMIX_SUCCESS;
}

pmix_status_t on_fence(const pmix_proc_t processes[], size_t count, const pmix_info_t /*info*/[], size_t /*infos*/,
                       char* bytes, size_t size, pmix_modex_cbfunc_t answer, void* data) {
  return guarded([&] {
    return join("fence", processes, count, size > 0 ? std::string(bytes, size) : std::string(), pending(answer, data));
  });
}

pmix_status_t on_connect(const pmix_proc_t processes[], size_t count, const pmix_info_t /*info*/[], size_t /*infos*/,
                         pmix_op_cbfunc_t answer, void* data) {
  return guarded([&] { return join("connect", processes, count, {}, pending(answer, data)); });
}

pmix_status_t on_disconnect(const pmix_proc_t processes[], size_t count, const pmix_info_t /*info*/[], size_t /*infos*/,
                            pmix_op_cbfunc_t answer, void* data) {
  return guarded([&] { return join("disconnect", processes, count, {}, pending(answer, data)); });
}

pmix_status_t on_direct_modex(const pmix_proc_t* process, const pmix_info_t /*info*/[], size_t /*infos*/,
                              pmix_modex_cbfunc_t answer, void* data) {
  return guarded([&] {
    const int rank = the_server->rank_of(*process);
    if (rank < 0) return PMIX_ERR_NOT_FOUND;
    the_server->send(Get{the_server->open(pending(answer, data)), rank});
    return PMIX_SUCCESS;
  });
}

bool is_flag(const pmix_info_t& info) {
  return std::strncmp(info.key, "pmix.", 5) == 0;  // options of the call, not data
}

pmix_status_t on_publish(const pmix_proc_t* process, const pmix_info_t info[], size_t count, pmix_op_cbfunc_t answer,
                         void* data) {
  return guarded([&] {
    Publish publish;
    publish.rank = the_server->rank_of(*process);
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i) {
      if (is_flag(info[i])) continue;
      publish.entries.push_back({info[i].key, pack(info[i].value), -1});
      bytes += publish.entries.back().data.bytes.size();
    }
    if (publish.rank < 0) return PMIX_ERR_BAD_PARAM;
    if (bytes > kMaxData || publish.entries.size() > kMaxEntries) return PMIX_ERR_OUT_OF_RESOURCE;
    publish.id = the_server->open(pending(answer, data));
    the_server->send(publish);
    return PMIX_SUCCESS;
  });
}

pmix_status_t on_lookup(const pmix_proc_t* /*process*/, char** keys, const pmix_info_t info[], size_t count,
                        pmix_lookup_cbfunc_t answer, void* data) {
  return guarded([&] {
    Lookup lookup;
    lookup.keys = texts_of(keys);
    for (size_t i = 0; i < count; ++i) lookup.wait = lookup.wait || std::strcmp(info[i].key, PMIX_WAIT) == 0;
    if (lookup.keys.size() > kMaxEntries) return PMIX_ERR_OUT_OF_RESOURCE;
    lookup.id = the_server->open(pending(answer, data));
    the_server->send(lookup);
    return PMIX_SUCCESS;
  });
}

pmix_status_t on_unpublish(const pmix_proc_t* process, char** keys, const pmix_info_t /*info*/[], size_t /*count*/,
                           pmix_op_cbfunc_t answer, void* data) {
  return guarded([&] {
    Unpublish unpublish;
    unpublish.rank = the_server->rank_of(*process);
    unpublish.keys = texts_of(keys);
    if (unpublish.rank < 0 || unpublish.keys.size() > kMaxEntries) return PMIX_ERR_BAD_PARAM;
    unpublish.id = the_server->open(pending(answer, data));
    the_server->send(unpublish);
    return PMIX_SUCCESS;
  });
}

pmix_status_t on_spawn(const pmix_proc_t* process, const pmix_info_t /*info*/[], size_t /*infos*/,
                       const pmix_app_t /*apps*/[], size_t /*count*/, pmix_spawn_cbfunc_t /*answer*/, void* /*data*/) {
  return guarded([&] {
    the_server->send(Refused{the_server->rank_of(*process), "start more processes (MPI_Comm_spawn)"});
    return PMIX_ERR_NOT_SUPPORTED;
  });
}

// libpmix keeps registrations itself. It asks its host only for events of the machine, and this host has none.
pmix_status_t on_register_events(pmix_status_t* /*codes*/, size_t /*count*/, const pmix_info_t /*info*/[],
                                 size_t /*infos*/, pmix_op_cbfunc_t /*answer*/, void* /*data*/) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t on_deregister_events(pmix_status_t* /*codes*/, size_t /*count*/, pmix_op_cbfunc_t /*answer*/,
                                   void* /*data*/) {
  return PMIX_OPERATION_SUCCEEDED;
}

// libpmix itself has notified the learners of this node; dlrun notifies those of other nodes.
pmix_status_t on_notify(pmix_status_t code, const pmix_proc_t* source, pmix_data_range_t range, pmix_info_t info[],
                        size_t count, pmix_op_cbfunc_t /*answer*/, void* /*data*/) {
  return guarded([&] {
    const int rank = source != nullptr ? the_server->rank_of(*source) : -1;
    const bool others = range != PMIX_RANGE_LOCAL && range != PMIX_RANGE_PROC_LOCAL && range != PMIX_RANGE_RM;
    if (rank < 0 || !others) return PMIX_OPERATION_SUCCEEDED;
    Event event{code, rank, range, pack(info, count), static_cast<int>(count)};
    if (event.data.bytes.size() > kMaxData || count > kMaxEntries) return PMIX_ERR_OUT_OF_RESOURCE;
    the_server->send(event);
    return PMIX_OPERATION_SUCCEEDED;
  });
}

// libpmix itself removes what a client wants removed at its end, but only if this function exists.
pmix_status_t on_job_control(const pmix_proc_t* /*who*/, const pmix_proc_t /*targets*/[], size_t /*count*/,
                             const pmix_info_t /*info*/[], size_t /*infos*/, pmix_info_cbfunc_t /*answer*/,
                             void* /*data*/) {
  return PMIX_ERR_NOT_SUPPORTED;
}

}  // namespace

pmix_server_module_t* upcalls(Server* server) {
  the_server = server;
  static pmix_server_module_t module;
  module.client_connected = on_connected;
  module.client_finalized = on_finalized;
  module.abort = on_abort;
  module.fence_nb = on_fence;
  module.direct_modex = on_direct_modex;
  module.publish = on_publish;
  module.lookup = on_lookup;
  module.unpublish = on_unpublish;
  module.spawn = on_spawn;
  module.connect = on_connect;
  module.disconnect = on_disconnect;
  module.register_events = on_register_events;
  module.deregister_events = on_deregister_events;
  module.notify_event = on_notify;
  module.job_control = on_job_control;
  return &module;
}

}  // namespace dl::pmix
