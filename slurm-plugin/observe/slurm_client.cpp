// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/observe/slurm_client.h"

extern "C" {
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>
// Frees *item and sets it to NULL. Slurm's public headers do not declare this function, but its library exports it,
// as it does everything that its macro xfree() calls.
void slurm_xfree(void** item);
}

#include <fmt/core.h>
#include <pwd.h>

#include <csignal>
#include <ctime>
#include <memory>
#include <type_traits>
#include <vector>

#include "common/base/parse.h"
#include "slurm-plugin/observe/gres.h"
#include "slurm-plugin/observe/series.h"
#include "slurm-plugin/observe/topology_command.h"
#include "slurm-plugin/policy/job_id.h"

namespace dl::observe {
namespace {

std::string text_of(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

Error slurm_error_of(const std::string& what, int code) {
  Errc kind = Errc::kIo;
  switch (code) {
    case ESLURM_INVALID_JOB_ID:
      kind = Errc::kNotFound;
      break;
    case ESLURM_ACCESS_DENIED:
    case ESLURM_USER_ID_MISSING:
      kind = Errc::kDenied;
      break;
    case ESLURM_JOB_PENDING:
    case ESLURM_JOB_NOT_PENDING:
    case ESLURM_JOB_NOT_RUNNING:
    case ESLURM_ALREADY_DONE:
    case ESLURM_JOB_FINISHED:
    case ESLURM_TRANSITION_STATE_NO_UPDATE:
    case ESLURM_BATCH_ONLY:
      kind = Errc::kConflict;
      break;
    case SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR:
    case SLURMCTLD_COMMUNICATIONS_SEND_ERROR:
    case SLURMCTLD_COMMUNICATIONS_RECEIVE_ERROR:
    case SLURMCTLD_COMMUNICATIONS_SHUTDOWN_ERROR:
    case SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT:
    case ESLURM_IN_STANDBY_MODE:
      kind = Errc::kBusy;
      break;
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(24, 11, 0)
    case ESLURM_JOB_SETTING_DB_INX:
      kind = Errc::kUnsupported;
      break;
#endif
    default:
      break;
  }
  return Error{kind, what + ": " + text_of(slurm_strerror(code))};
}

constexpr int64_t kSwitchesEveryS = 60;  // slurmctld takes a new topology only at a restart or reconfigure
constexpr std::chrono::seconds kSwitchesWithin{5};

// Slurm starts no further jobs on a node with one of these flags. A reservation keeps a node for its own users, for
// example as a spare.
constexpr uint64_t kUnusable = NODE_STATE_RES | NODE_STATE_DRAIN | NODE_STATE_FAIL | NODE_STATE_NO_RESPOND |
                               NODE_STATE_MAINT | NODE_STATE_POWERED_DOWN | NODE_STATE_POWERING_DOWN |
                               NODE_STATE_REBOOT_REQUESTED | NODE_STATE_REBOOT_ISSUED | NODE_STATE_INVALID_REG;

NodeRecord copy_node(const node_info_t& node) {
  NodeRecord record;
  record.name = text_of(node.name);
  record.gres = text_of(node.gres);
  const uint64_t state = node.node_state;
  const uint64_t base = state & NODE_STATE_BASE;
  record.usable =
      (base == NODE_STATE_IDLE || base == NODE_STATE_ALLOCATED || base == NODE_STATE_MIXED) && (state & kUnusable) == 0;
  return record;
}

JobPhase phase_of(uint64_t state) {
  if ((state & JOB_COMPLETING) != 0) return JobPhase::kCompleting;
  const uint64_t base = state & JOB_STATE_BASE;
  if (base == JOB_PENDING) return JobPhase::kPending;
  return base == JOB_RUNNING || base == JOB_SUSPENDED ? JobPhase::kRunning : JobPhase::kOver;
}

Wait wait_of(const slurm_job_info_t& job) {
  if (job.priority == 0) return Wait::kOther;  // held
  switch (job.state_reason) {
    case WAIT_NO_REASON:
    case WAIT_PRIORITY:
    case WAIT_RESOURCES:
    case WAIT_CLEANING:
      return Wait::kNothing;
    case WAIT_LICENSES:
      return Wait::kLicenses;
    case WAIT_TIME:
      return Wait::kTime;
    default:
      return Wait::kOther;
  }
}

int64_t id_of(const slurm_job_info_t& job) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
  return job.step_id.job_id;
#else
  return job.job_id;
#endif
}

uint32_t number(uint32_t value) {
  return value == NO_VAL || value == INFINITE ? 0 : value;
}

// From "cpu=4,mem=8G,node=2,billing=4". The record's num_nodes is no help: of a job that was put back it is the number
// of nodes that it had, and of others a guess.
uint32_t requested_nodes(const std::string& tres) {
  for (const std::string& one : split(tres, ',')) {
    if (one.rfind("node=", 0) != 0) continue;
    const auto nodes = parse_int(std::string_view(one).substr(5), 0, UINT32_MAX / 4);
    return nodes ? static_cast<uint32_t>(*nodes) : 0;
  }
  return 0;
}

JobRecord copy_job(const slurm_job_info_t& job) {
  JobRecord record;
  record.id = id_of(job);
  record.array = number(job.array_job_id);
  record.elements = text_of(job.array_task_str);
  if (record.array != 0 && job.array_task_id != NO_VAL) record.element = job.array_task_id;
  record.admin_comment = text_of(job.admin_comment);
  record.comment = text_of(job.comment);
  record.name = text_of(job.name);
  record.account = text_of(job.account);
  record.licenses = text_of(job.licenses);
  record.phase = phase_of(job.job_state);
  record.wait = wait_of(job);
  record.held = job.priority == 0 && record.phase == JobPhase::kPending;
  record.requeueable = job.batch_flag != 0 && job.requeue != 0;
  record.requeues = number(job.restart_cnt);
  record.submit_s = job.submit_time;
  record.begin_s = job.eligible_time;  // slurmctld reports the begin time of a pending job here
  record.start_s = job.start_time;
  if (job.time_limit != NO_VAL && job.time_limit != INFINITE) record.limit_s = int64_t{job.time_limit} * 60;
  if (number(job.nice) != 0) record.nice = int64_t{job.nice} - int64_t{NICE_OFFSET};
  if (number(job.site_factor) != 0) record.site_factor = int64_t{job.site_factor} - int64_t{NICE_OFFSET};
  record.priority = number(job.priority);
  if (record.phase == JobPhase::kPending) record.min_nodes = requested_nodes(text_of(job.tres_req_str));
  record.max_nodes = number(job.max_nodes);
  record.node_gpus = total(parse_gpus(text_of(job.tres_per_node)));
  record.nodes = text_of(job.nodes);
  for (uint32_t i = 0; i < job.gres_detail_cnt && job.gres_detail_str != nullptr; ++i)
    record.gres_by_node.push_back(text_of(job.gres_detail_str[i]));
  return record;
}

EndedRecord copy_ended(const slurm_job_info_t& job) {
  using How = EndedRecord::How;
  EndedRecord record;
  record.id = id_of(job);
  record.element = number(job.array_job_id) != 0;
  record.account = text_of(job.account);
  switch (job.job_state & JOB_STATE_BASE) {
    case JOB_COMPLETE:
      record.how = How::kCompleted;
      break;
    case JOB_CANCELLED:
    case JOB_PREEMPTED:  // and not put back
      record.how = How::kCancelled;
      break;
    case JOB_NODE_FAIL:
    case JOB_BOOT_FAIL:
      record.how = How::kSystem;
      break;
    default:
      break;
  }
  return record;
}

void name_job(job_desc_msg_t* message, int64_t job) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
  message->step_id.job_id = static_cast<uint32_t>(job);
#else
  message->job_id = static_cast<uint32_t>(job);
#endif
}

// slurm_free_job_info_msg() of Slurm 22.05 does not free the admin_comment of the jobs, which holds our labels: with
// 10,000 jobs it would leak a megabyte in each round. In a release that frees it, the pointer is NULL by then.
void free_jobs(job_info_msg_t* message) {
  for (uint32_t i = 0; i < message->record_count; ++i) {
    void* comment = message->job_array[i].admin_comment;
    slurm_xfree(&comment);
    message->job_array[i].admin_comment = nullptr;
  }
  slurm_free_job_info_msg(message);
}

// The first error among the answers for the elements of an array; it frees the answers.
int first_error(int sent, job_array_resp_msg_t* answers) {
  int code = sent == SLURM_SUCCESS ? SLURM_SUCCESS : errno;
  if (answers == nullptr) return code;
  for (uint32_t i = 0; i < answers->job_array_count && code == SLURM_SUCCESS; ++i)
    code = static_cast<int>(answers->error_code[i]);
  slurm_free_job_array_resp(answers);
  return code;
}

}  // namespace

void start_slurm() {
  slurm_init(nullptr);
}

Result<int64_t> check_controller() {
  slurm_conf_t* settings = nullptr;
  if (slurm_load_ctl_conf(0, &settings) != SLURM_SUCCESS) {
    if (errno == SLURM_PROTOCOL_VERSION_ERROR) DL_TRY(check_series("", DL_SLURM_SERIES));
    return slurm_error_of("slurmctld's version cannot be read", errno);
  }
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
  constexpr auto* kFree = &slurm_free_conf;
#else
  constexpr auto* kFree = &slurm_free_ctl_conf;
#endif
  const std::unique_ptr<slurm_conf_t, decltype(kFree)> freed(settings, kFree);
  DL_TRY(check_series(text_of(settings->version), DL_SLURM_SERIES));
  return int64_t{settings->kill_wait};
}

Observer::Observer() = default;
Observer::~Observer() = default;

Status Observer::load_nodes() {
  node_info_msg_t* message = nullptr;
  if (slurm_load_node(nodes_s_, &message, SHOW_ALL | SHOW_DETAIL) != SLURM_SUCCESS) {
    if (errno == SLURM_NO_CHANGE_IN_DATA && nodes_s_ != 0) return {};
    return slurm_error_of("nodes cannot be read", errno);
  }
  const std::unique_ptr<node_info_msg_t, decltype(&slurm_free_node_info_msg)> nodes(message, &slurm_free_node_info_msg);
  records_.nodes.clear();
  // slurmctld reports a nameless record for a node that was taken out of slurm.conf.
  for (uint32_t i = 0; i < nodes->record_count; ++i)
    if (nodes->node_array[i].name != nullptr) records_.nodes.push_back(copy_node(nodes->node_array[i]));
  nodes_s_ = nodes->last_update;
  return {};
}

// The user's name on this host. Each uid is looked up once, since a directory service may have to be asked.
const std::string& Observer::user_name(uint32_t uid) {
  const auto [known, is_new] = users_.emplace(uid, "");
  if (!is_new) return known->second;
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16384);
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0) found = nullptr;
  known->second = found == nullptr ? std::to_string(uid) : std::string(found->pw_name);
  return known->second;
}

Status Observer::load_jobs() {
  job_info_msg_t* message = nullptr;
  if (slurm_load_jobs(jobs_s_, &message, SHOW_ALL | SHOW_DETAIL) != SLURM_SUCCESS) {
    if (errno == SLURM_NO_CHANGE_IN_DATA && jobs_s_ != 0) return {};
    return slurm_error_of("jobs cannot be read", errno);
  }
  const std::unique_ptr<job_info_msg_t, decltype(&free_jobs)> jobs(message, &free_jobs);
  records_.jobs.clear();
  records_.ended.clear();
  for (uint32_t i = 0; i < jobs->record_count; ++i) {
    if (phase_of(jobs->job_array[i].job_state) == JobPhase::kOver) {
      records_.ended.push_back(copy_ended(jobs->job_array[i]));
      continue;
    }
    JobRecord job = copy_job(jobs->job_array[i]);
    job.user = user_name(jobs->job_array[i].user_id);
    records_.jobs.push_back(std::move(job));
  }
  jobs_s_ = jobs->last_update;
  return {};
}

// Without a topology all nodes count as being on one switch. The topology only improves the choice of nodes; nothing
// depends on it.
void Observer::load_switches() {
  const int64_t now_s = std::time(nullptr);
  if (switches_s_ != 0 && now_s - switches_s_ < kSwitchesEveryS && now_s >= switches_s_) return;
  switches_s_ = now_s;
  if (auto leaves = ask_topology(kSwitchesWithin)) records_.leaf_switches = std::move(*leaves);
}

Result<const Records*> Observer::load() {
  Status loaded = load_nodes();
  if (loaded) loaded = load_jobs();
  if (!loaded) {
    nodes_s_ = jobs_s_ = 0;
    return std::move(loaded).error();
  }
  load_switches();
  records_.now_s = std::time(nullptr);
  return &records_;
}

Status update_job(int64_t job, const JobUpdate& update) {
  job_desc_msg_t message;
  slurm_init_job_desc_msg(&message);
  // libslurm only reads these strings, but the members are not const.
  if (update.licenses) message.licenses = const_cast<char*>(update.licenses->c_str());
  if (update.admin_comment) message.admin_comment = const_cast<char*>(update.admin_comment->c_str());
  if (update.begin_s) message.begin_time = *update.begin_s;
  if (update.site_factor) message.site_factor = static_cast<uint32_t>(int64_t{NICE_OFFSET} + *update.site_factor);
  if (update.min_nodes) message.min_nodes = *update.min_nodes;
  if (update.max_nodes) message.max_nodes = *update.max_nodes;
  // When the smallest number of nodes is raised, slurmctld raises the number of CPUs to what they need, but it does not
  // lower it again: the job would wait for ever, for the CPUs of two nodes on one. It raises this 1 likewise.
  if (update.min_nodes && update.cpus_of_nodes) message.min_cpus = 1;
  if (update.hold) {  // the same that scontrol hold and scontrol release do
    message.priority = *update.hold ? 0 : INFINITE;
    message.alloc_sid = 0;
  }
  if (update.requeue) message.requeue = *update.requeue ? 1 : 0;
  std::string name = policy::job_name(job);
  int code = SLURM_SUCCESS;
  if (policy::is_element(job)) {
    message.job_id_str = name.data();
    job_array_resp_msg_t* answers = nullptr;
    const int sent = slurm_update_job2(&message, &answers);
    code = first_error(sent, answers);
  } else {
    name_job(&message, job);
    if (slurm_update_job(&message) != SLURM_SUCCESS) code = errno;
  }
  if (code != SLURM_SUCCESS) return slurm_error_of("job " + name, code);
  return {};
}

Status signal_steps(int64_t job, int signal) {
  const std::string id = policy::job_name(job);
  if (slurm_kill_job2(id.c_str(), static_cast<uint16_t>(signal), KILL_STEPS_ONLY, nullptr) != SLURM_SUCCESS)
    return slurm_error_of(fmt::format("signal {} to job {}", signal, id), errno);
  return {};
}

Status requeue(int64_t job) {
  std::string id = policy::job_name(job);
  job_array_resp_msg_t* answers = nullptr;
  const int sent = slurm_requeue2(id.data(), 0, &answers);
  const int code = first_error(sent, answers);
  if (code != SLURM_SUCCESS) return slurm_error_of(fmt::format("job {} cannot be put back", id), code);
  return {};
}

Status end_job(int64_t job) {
  const std::string id = policy::job_name(job);
  if (slurm_kill_job2(id.c_str(), SIGKILL, 0, nullptr) != SLURM_SUCCESS)
    return slurm_error_of(fmt::format("job {} cannot be ended", id), errno);
  return {};
}

namespace {
// Later versions of Slurm may identify the job differently; then no line is sent.
template <typename Notify>
int notify(Notify* notify_job, int64_t id, std::string text) {
  if constexpr (std::is_invocable_v<Notify, uint32_t, char*>) return notify_job(static_cast<uint32_t>(id), text.data());
  return SLURM_SUCCESS;
}
}  // namespace

Status tell_job(int64_t id, const std::string& text) {
  if (notify(&slurm_notify_job, id, text) != SLURM_SUCCESS)
    return slurm_error_of(fmt::format("job {} cannot be told", id), errno);
  return {};
}

}  // namespace dl::observe
