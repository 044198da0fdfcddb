// SPDX-License-Identifier: Apache-2.0
#include "launcher/pmix/server.h"

#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "launcher/pmix/job_data.h"

namespace dl::pmix {
namespace {

static_assert(kSuccess == PMIX_SUCCESS && kBadParameter == PMIX_ERR_BAD_PARAM &&
              kOutOfResource == PMIX_ERR_OUT_OF_RESOURCE && kNotFound == PMIX_ERR_NOT_FOUND &&
              kDuplicateKey == PMIX_ERR_DUPLICATE_KEY && kLostConnection == PMIX_ERR_LOST_CONNECTION);

// Items of type pmix_info_t, which are freed with their values.
class Infos {
 public:
  Infos() = default;
  Infos(const Infos&) = delete;
  Infos& operator=(const Infos&) = delete;
  ~Infos() {
    for (pmix_info_t& item : items_) PMIX_INFO_DESTRUCT(&item);
  }
  void add(const char* key, const void* value, pmix_data_type_t type) {
    items_.emplace_back();
    std::memset(&items_.back(), 0, sizeof(pmix_info_t));
    ignore_result(PMIx_Info_load(&items_.back(), key, value, type));
  }
  void text(const char* key, const std::string& value) { add(key, value.c_str(), PMIX_STRING); }
  void number(const char* key, int value) {
    const auto number = static_cast<uint32_t>(value);
    add(key, &number, PMIX_UINT32);
  }
  void small_number(const char* key, int value) {
    const auto number = static_cast<uint16_t>(value);
    add(key, &number, PMIX_UINT16);
  }
  void rank(const char* key, int value) {
    const auto number = static_cast<pmix_rank_t>(value);
    add(key, &number, PMIX_PROC_RANK);
  }
  void truth(const char* key, bool value) { add(key, &value, PMIX_BOOL); }
  pmix_info_t* data() { return items_.data(); }
  size_t size() const { return items_.size(); }

 private:
  static void ignore_result(pmix_status_t /*status*/) {}
  std::vector<pmix_info_t> items_;
};

Status check(pmix_status_t status, const std::string& what) {
  if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED) return {};
  return Error{Errc::kIo, what + ": " + PMIx_Error_string(status)};
}

pmix_proc_t process(const std::string& space, pmix_rank_t rank) {
  pmix_proc_t named;
  std::memset(&named, 0, sizeof named);
  std::strncpy(named.nspace, space.c_str(), PMIX_MAX_NSLEN);
  named.rank = rank;
  return named;
}

Result<std::string> regex_of(pmix_status_t (*make)(const char*, char**), const std::string& list) {
  char* regex = nullptr;
  DL_TRY(check(make(list.c_str(), &regex), "describe the nodes to PMIx"));
  std::unique_ptr<char, decltype(&::free)> owner(regex, ::free);
  return std::string(regex);
}

std::string taken(pmix_data_buffer_t* buffer) {
  pmix_byte_object_t object{};
  PMIx_Data_unload(buffer, &object);
  std::string bytes(object.bytes, object.size);
  ::free(object.bytes);
  return bytes;
}

struct Unpacker {
  pmix_data_buffer_t buffer{};
  explicit Unpacker(const Bytes& bytes) {
    pmix_byte_object_t object{static_cast<char*>(::malloc(bytes.bytes.size() + 1)), bytes.bytes.size()};
    if (object.bytes == nullptr) return;
    std::copy(bytes.bytes.begin(), bytes.bytes.end(), object.bytes);
    PMIx_Data_load(&buffer, &object);
  }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;
  ~Unpacker() { ::free(buffer.base_ptr); }
};

void free_text(void* text) {
  delete static_cast<std::string*>(text);
}

}  // namespace

Bytes pack(const pmix_info_t* info, size_t count) {
  pmix_data_buffer_t buffer{};
  if (count > 0)
    PMIx_Data_pack(nullptr, &buffer, const_cast<pmix_info_t*>(info), static_cast<int32_t>(count), PMIX_INFO);
  return {taken(&buffer)};
}

Bytes pack(const pmix_value_t& value) {
  pmix_data_buffer_t buffer{};
  PMIx_Data_pack(nullptr, &buffer, const_cast<pmix_value_t*>(&value), 1, PMIX_VALUE);
  return {taken(&buffer)};
}

bool unpack(const Bytes& bytes, std::vector<pmix_info_t>* info, int count) {
  info->resize(static_cast<size_t>(count));
  if (count == 0) return true;
  std::memset(info->data(), 0, info->size() * sizeof(pmix_info_t));
  Unpacker from(bytes);
  int32_t found = count;
  return PMIx_Data_unpack(nullptr, &from.buffer, info->data(), &found, PMIX_INFO) == PMIX_SUCCESS && found == count;
}

bool unpack(const Bytes& bytes, pmix_value_t* value) {
  Unpacker from(bytes);
  int32_t found = 1;
  return PMIx_Data_unpack(nullptr, &from.buffer, value, &found, PMIX_VALUE) == PMIX_SUCCESS && found == 1;
}

Server::~Server() {
  if (running_) PMIx_server_finalize();
}

Status Server::start(const std::string& folder, const std::string& node) {
  folder_ = folder;
  // Job data goes by messages instead of shared memory: that leaves nothing behind and works in containers.
  ::setenv("PMIX_MCA_gds", "hash", 0);
  Infos infos;
  infos.text(PMIX_SERVER_TMPDIR, folder);
  infos.text(PMIX_SYSTEM_TMPDIR, folder);
  infos.text(PMIX_HOSTNAME, node);
  infos.text(PMIX_SERVER_NSPACE, "dl-pmix-" + std::to_string(::getpid()));
  infos.rank(PMIX_SERVER_RANK, 0);
  DL_TRY(check(PMIx_server_init(upcalls(this), infos.data(), infos.size()), "start libpmix's server"));
  running_ = true;
  return {};
}

bool Server::own_space(const pmix_proc_t& named) const {
  return std::strncmp(named.nspace, job_.space.c_str(), PMIX_MAX_NSLEN) == 0;
}

int Server::rank_of(const pmix_proc_t& named) const {
  return own_space(named) && named.rank < static_cast<pmix_rank_t>(kMaxRank) ? static_cast<int>(named.rank) : -1;
}

int64_t Server::open(const Pending& pending) {
  const std::lock_guard<std::mutex> lock(mutex_);
  pending_[next_] = pending;
  return next_++;
}

bool Server::take(int64_t id, Pending* pending) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = pending_.find(id);
  if (found == pending_.end()) return false;
  *pending = std::move(found->second);
  pending_.erase(found);
  return true;
}

Status Server::handle(const PmixMessage& message) {
  if (const auto* job = std::get_if<Job>(&message)) return register_job(*job);
  if (const auto* part = std::get_if<FencePart>(&message)) on_part(*part);
  if (const auto* done = std::get_if<Done>(&message)) on_done(*done);
  if (const auto* got = std::get_if<Got>(&message)) on_got(*got);
  if (const auto* found = std::get_if<Found>(&message)) on_found(*found);
  if (const auto* get = std::get_if<Get>(&message)) on_get(*get);
  if (const auto* lost = std::get_if<Lost>(&message)) on_lost(*lost);
  if (const auto* event = std::get_if<Event>(&message)) on_event(*event);
  return {};
}

Status Server::register_job(const Job& job) {
  if (!job_.space.empty()) return {};
  DL_TRY_ASSIGN(const JobData data, job_data(job));
  job_ = job;
  DL_TRY_ASSIGN(const std::string nodes, regex_of(PMIx_generate_regex, data.nodes));
  DL_TRY_ASSIGN(const std::string ranks, regex_of(PMIx_generate_ppn, data.ranks));
  const int local = static_cast<int>(data.local.size());
  Infos infos;
  infos.add(PMIX_NODE_MAP, nodes.c_str(), PMIX_REGEX);
  infos.add(PMIX_PROC_MAP, ranks.c_str(), PMIX_REGEX);
  infos.text(PMIX_JOBID, job.space);
  infos.number(PMIX_SESSION_ID, 0);
  infos.number(PMIX_UNIV_SIZE, data.size);
  infos.number(PMIX_JOB_SIZE, data.size);
  infos.number(PMIX_MAX_PROCS, data.size);
  infos.number(PMIX_JOB_NUM_APPS, 1);
  infos.number(PMIX_NUM_NODES, static_cast<int>(job.nodes.size()));
  infos.truth(PMIX_SPAWNED, false);
  infos.number(PMIX_LOCAL_SIZE, local);
  infos.number(PMIX_NODE_SIZE, local);
  infos.text(PMIX_LOCAL_PEERS, data.local_peers);
  infos.rank(PMIX_LOCALLDR, data.local.front());
  infos.text(PMIX_TMPDIR, folder_);
  infos.text(PMIX_NSDIR, folder_ + "/learners");
  infos.truth(PMIX_TDIR_RMCLEAN, true);
  for (const ProcessData& each : data.processes) {
    Infos own;
    own.rank(PMIX_RANK, each.rank);
    own.number(PMIX_APPNUM, 0);
    own.rank(PMIX_APP_RANK, each.rank);
    own.rank(PMIX_GLOBAL_RANK, each.rank);
    own.small_number(PMIX_LOCAL_RANK, each.local_rank);
    own.small_number(PMIX_NODE_RANK, each.local_rank);
    own.number(PMIX_NODEID, each.node);
    own.text(PMIX_HOSTNAME, job.nodes[static_cast<size_t>(each.node)]);
    pmix_data_array_t array{PMIX_INFO, own.size(), own.data()};
    infos.add(PMIX_PROC_DATA, &array, PMIX_DATA_ARRAY);
  }
  DL_TRY(check(PMIx_server_register_nspace(job.space.c_str(), local, infos.data(), infos.size(), nullptr, nullptr),
               "tell libpmix of the job"));
  Ready ready;
  ready.version = PMIx_Get_version();
  ready.version.resize(std::min(ready.version.size(), ready.version.find(" (")));
  for (const int rank : data.local) DL_TRY(register_learner(rank, &ready.learners.emplace_back()));
  send_(ready);
  return {};
}

Status Server::register_learner(int rank, std::map<std::string, std::string>* environment) {
  const pmix_proc_t named = process(job_.space, static_cast<pmix_rank_t>(rank));
  DL_TRY(check(PMIx_server_register_client(&named, ::getuid(), ::getgid(), nullptr, nullptr, nullptr),
               "tell libpmix of a learner"));
  char** list = nullptr;
  DL_TRY(check(PMIx_server_setup_fork(&named, &list), "have libpmix make a learner's environment"));
  for (char** at = list; at != nullptr && *at != nullptr; ++at) {
    const size_t name = std::strcspn(*at, "=");
    if ((*at)[name] == '=') (*environment)[std::string(*at, name)] = *at + name + 1;
    ::free(*at);
  }
  ::free(list);
  return {};
}

void Server::on_part(const FencePart& part) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto found = pending_.find(part.id); found != pending_.end()) found->second.parts += part.data.bytes;
}

void Server::on_done(const Done& done) {
  Pending pending;
  if (!take(done.id, &pending)) return;
  if (pending.op != nullptr) return pending.op(done.status, pending.data);
  if (pending.modex == nullptr) return;
  auto* parts = new std::string(std::move(pending.parts));
  pending.modex(done.status, parts->empty() ? nullptr : parts->data(), parts->size(), pending.data, free_text, parts);
}

void Server::on_got(const Got& got) {
  Pending pending;
  if (!take(got.id, &pending) || pending.modex == nullptr) return;
  auto* data = new std::string(got.data.bytes);
  pending.modex(got.status, data->empty() ? nullptr : data->data(), data->size(), pending.data, free_text, data);
}

void Server::on_found(const Found& found) {
  Pending pending;
  if (!take(found.id, &pending) || pending.lookup == nullptr) return;
  std::vector<pmix_pdata_t> items(found.entries.size());
  size_t count = 0;
  for (const Entry& entry : found.entries) {
    pmix_pdata_t& item = items[count];
    std::memset(&item, 0, sizeof item);
    if (!unpack(entry.data, &item.value)) continue;
    item.proc = process(job_.space, static_cast<pmix_rank_t>(entry.rank));
    std::strncpy(item.key, entry.key.c_str(), PMIX_MAX_KEYLEN);
    ++count;
  }
  pending.lookup(found.status, items.data(), count, pending.data);
  for (size_t i = 0; i < count; ++i) PMIX_VALUE_DESTRUCT(&items[i].value);
}

// The answer may come much later, when the learner has published the data.
void Server::on_get(const Get& get) {
  struct Question {
    Server* server;
    int64_t id;
  };
  const pmix_proc_t named = process(job_.space, static_cast<pmix_rank_t>(get.rank));
  auto* question = new Question{this, get.id};
  const pmix_status_t status = PMIx_server_dmodex_request(
      &named,
      [](pmix_status_t outcome, char* data, size_t size, void* given) {
        const std::unique_ptr<Question> asked(static_cast<Question*>(given));
        const bool small = size <= kMaxData;
        asked->server->send(Got{asked->id,
                                small ? outcome : PMIX_ERR_OUT_OF_RESOURCE,
                                {size > 0 && small ? std::string(data, size) : std::string()}});
      },
      question);
  if (status == PMIX_SUCCESS) return;
  delete question;
  send_(Got{get.id, status, {}});
}

// Only learners that have asked for these codes are notified. A program's handler for all codes mostly gives up and
// prints many lines, while dlrun ends it a moment later anyway.
void Server::on_lost(const Lost& lost) {
  const pmix_proc_t gone = process(job_.space, static_cast<pmix_rank_t>(lost.rank));
  for (const pmix_status_t code : {PMIX_ERR_PROC_ABORTED, PMIX_EVENT_PROC_TERMINATED}) {
    Infos infos;
    infos.add(PMIX_EVENT_AFFECTED_PROC, &gone, PMIX_PROC);
    infos.truth(PMIX_EVENT_NON_DEFAULT, true);
    infos.add(PMIX_EXIT_CODE, &lost.exit, PMIX_INT);
    PMIx_Notify_event(code, &gone, PMIX_RANGE_LOCAL, infos.data(), infos.size(), nullptr, nullptr);
  }
}

void Server::on_event(const Event& event) {
  std::vector<pmix_info_t> infos;
  const pmix_proc_t source = process(job_.space, static_cast<pmix_rank_t>(event.rank));
  if (unpack(event.data, &infos, event.count))
    PMIx_Notify_event(event.code, &source, static_cast<pmix_data_range_t>(event.range), infos.data(), infos.size(),
                      nullptr, nullptr);
  for (pmix_info_t& info : infos) PMIX_INFO_DESTRUCT(&info);
}

}  // namespace dl::pmix
