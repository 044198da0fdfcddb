// SPDX-License-Identifier: Apache-2.0
// The C functions of dlpool.h.
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fork_mark.h"
#include "common/base/guard.h"
#include "common/contract/env_names.h"
#include "config.h"
#include "launcher/pool/client.h"
#include "launcher/pool/directory.h"
#include "launcher/pool/include/dlpool.h"
#include "launcher/pool/member.h"
#include "launcher/pool/secret.h"

using namespace dl;        // NOLINT(google-build-using-namespace)
using namespace dl::pool;  // NOLINT(google-build-using-namespace)

static_assert(DLPOOL_SLOTS == kSlots && DLPOOL_MAX_KEY == kMostKey && DLPOOL_MAX_BYTES == kMostBytes &&
              DLPOOL_MAX_STATE == kMostState);

struct dlpool_bytes {
  std::string text;
  bool is_cut = false;  // there was no memory for some of it
};

namespace {

thread_local std::string last_error;  // NOLINT(runtime/string)

dlpool_result code_of(Errc code) {
  switch (code) {
    case Errc::kInvalid:
    case Errc::kConflict:
      return DLPOOL_E_INVALID;
    case Errc::kDenied:
      return DLPOOL_E_DENIED;
    case Errc::kTimeout:
      return DLPOOL_E_TIMEOUT;
    case Errc::kBusy:
      return DLPOOL_E_STATE;
    case Errc::kInternal:
      return DLPOOL_E_OBJECT;
    default:
      return DLPOOL_E_IO;
  }
}

dlpool_result keep(dlpool_result result, const std::string& text) noexcept {
  try {
    last_error = text;
  } catch (...) {  // the code says enough
    last_error.clear();
  }
  return result;
}

// Carries out a function that C calls. Its own results and errors of Status become codes, and their sentences are kept.
template <typename Body>
dlpool_result answer(Body&& body) noexcept {
  return guard(
      DLPOOL_E_INTERNAL, [](const char* what) { keep(DLPOOL_E_INTERNAL, what); },
      [&]() -> dlpool_result {
        try {
          last_error.clear();
          const Status status = body();
          return status ? DLPOOL_OK : keep(code_of(status.error().code), status.error().text);
        } catch (const std::bad_alloc&) {
          return keep(DLPOOL_E_MEMORY, "out of memory");
        }
      });
}

Error invalid(const std::string& text) {
  return Error{Errc::kInvalid, text};
}

// An option, or else a variable of the environment.
Result<std::string> given(const char* option, const char* variable, const char* what) {
  const char* value = option != nullptr ? option : std::getenv(variable);
  if (value != nullptr && *value != '\0') return std::string(value);
  return invalid(std::string(what) + " of the pool is not known; allowed: the option, or the variable " + variable);
}

// Where the pool is, and its secret: of a member or a client.
struct Place {
  std::string directory, secret;
};

Status check_size(size_t given_size, size_t size, const char* name) {
  if (given_size == size) return {};
  return invalid("struct_size: " + std::to_string(given_size) + " is not the size of " + name + ", " +
                 std::to_string(size));
}

Result<Place> place_of(const dlpool_options* options) {
  if (options != nullptr) DL_TRY(check_size(options->struct_size, sizeof *options, "dlpool_options"));
  Place place;
  DL_TRY_ASSIGN(place.directory, given(options ? options->directory : nullptr, env::kPool, "the directory"));
  DL_TRY_ASSIGN(const std::string file,
                given(options ? options->secret_file : nullptr, env::kPoolSecret, "the file of the secret"));
  DL_TRY_ASSIGN(place.secret, read_secret(file));
  return place;
}

// The user's functions as an Object.
class CObject : public Object {
 public:
  explicit CObject(const dlpool_object& object) : object_(object) {}
  // Where this returns an answer, the copies answer the same.
  Result<Answer> apply(int slot, std::string_view key, std::string_view bytes) override {
    dlpool_bytes said;
    const int result = call(object_.apply, slot, key, bytes, &said);
    if (result == DLPOOL_END_MEMBER) return failed("apply to", slot, said.text);
    if (result == 0 && said.is_cut) return failed("apply to", slot, kNoMemory);
    if (said.text.size() <= kMostBytes) return Answer{result != 0, std::move(said.text)};
    if (result == 0) return failed("apply to", slot, kTooLong);
    return Answer{true, kTooLong};
  }
  Result<Answer> read(int slot, std::string_view key, std::string_view bytes) override {
    if (object_.read == nullptr) return Answer{true, "this object cannot be read"};
    dlpool_bytes said;
    const int result = call(object_.read, slot, key, bytes, &said);
    if (result == DLPOOL_END_MEMBER) return failed("read", slot, said.text);
    if (result == 0 && said.is_cut) return Answer{true, kNoMemory};
    if (said.text.size() > kMostBytes) return Answer{true, kTooLong};
    return Answer{result != 0, std::move(said.text)};
  }
  Result<std::string> save(int slot) override {
    dlpool_bytes state;
    const int result = object_.save(object_.user, slot, &state);
    if (result == DLPOOL_END_MEMBER) return failed("save", slot, state.text);
    if (result != 0 || state.is_cut) return Error{Errc::kUnsupported, "the slot cannot be saved now"};
    return std::move(state.text);
  }
  Status load(int slot, std::string_view bytes) override {
    dlpool_bytes why;
    if (object_.load(object_.user, slot, bytes.data(), bytes.size(), &why) != 0) return failed("load", slot, why.text);
    return {};
  }
  void drop(int slot) override { object_.drop(object_.user, slot); }
  Result<int> wanted(const Load& load) override {
    if (object_.wanted == nullptr) return load.members;
    const dlpool_load facts{sizeof(dlpool_load), load.members,     load.queued,  load.seconds,
                            load.busy_seconds,   load.cpu_seconds, load.updates, load.reads};
    const int wanted = object_.wanted(object_.user, &facts);
    if (wanted == DLPOOL_END_MEMBER) return Error{Errc::kInternal, "the pool's object has failed"};
    return wanted;
  }

 private:
  static constexpr const char *kNoMemory = "out of memory", *kTooLong = "the object's answer is longer than 64 MiB";
  template <typename Function>
  int call(Function function, int slot, std::string_view key, std::string_view bytes, dlpool_bytes* said) {
    return function(object_.user, slot, key.data(), key.size(), bytes.data(), bytes.size(), said);
  }
  static Error failed(const char* what, int slot, const std::string& why) {
    return Error{Errc::kInternal,
                 std::string(what) + " slot " + std::to_string(slot) + " of the pool's object: " + why};
  }
  dlpool_object object_;
};

}  // namespace

// Each knows whether a child of fork() uses it. A child has the parent's sockets, client id and numbers, so what it
// sent would be taken for the parent's, whose own updates would then be answered as if they had been carried out
// before. It does not destroy anything either: another thread of the parent, which it lacks, may have been in the
// middle of it.
struct dlpool_directory {
  ForkMark mark;
  std::unique_ptr<Directory> directory;
};
struct dlpool_member {
  ForkMark mark;
  std::unique_ptr<CObject> object;
  std::unique_ptr<Member> member;
  bool served = false;
};
struct dlpool_client {
  ForkMark mark;
  std::unique_ptr<Client> client;
  std::vector<Call> calls;
};

namespace {

Status check_process(const ForkMark& mark, const char* what) {
  if (!mark.in_child()) return {};
  return Error{Errc::kBusy, std::string("this is a child of fork(): the ") + what +
                                " of the pool belongs to its parent, and the child may only close it; open another "
                                "one in the child"};
}

}  // namespace

extern "C" {

const char* dlpool_error(void) {
  return last_error.c_str();
}

const char* dlpool_version(void) {
  return PACKAGE_VERSION;
}

int dlpool_slot(const void* key, size_t key_size) {
  return slot_of({static_cast<const char*>(key), key_size});
}

dlpool_result dlpool_put(dlpool_bytes* to, const void* data, size_t size) {
  return answer([&]() -> Status {
    if (to == nullptr || (data == nullptr && size > 0)) return invalid("put: a pointer is NULL");
    const bool was_cut = std::exchange(to->is_cut, true);
    if (size > 0) to->text.append(static_cast<const char*>(data), size);
    to->is_cut = was_cut;
    return {};
  });
}

dlpool_result dlpool_directory_open(const dlpool_directory_options* options, dlpool_directory** out) {
  if (out != nullptr) *out = nullptr;
  return answer([&]() -> Status {
    if (options == nullptr || out == nullptr) return invalid("options or out: the pointer is NULL");
    DL_TRY(check_size(options->struct_size, sizeof *options, "dlpool_directory_options"));
    DirectorySettings settings;
    settings.rule.min = options->min == 0 ? 1 : options->min;
    settings.rule.max = options->max == 0 ? settings.rule.min : options->max;
    if (settings.rule.min < 1 || settings.rule.max < settings.rule.min ||
        settings.rule.max > static_cast<int>(kMostMembers))
      return invalid("min and max: " + std::to_string(options->min) + " and " + std::to_string(options->max) +
                     " are no range of members; allowed: 1 <= min <= max <= " + std::to_string(kMostMembers));
    if (options->port < 0 || options->port > 65535)
      return invalid("port: " + std::to_string(options->port) + " is out of range; allowed: 0 to 65535");
    DL_TRY_ASSIGN(const std::string file, given(options->secret_file, env::kPoolSecret, "the file of the secret"));
    if (options->listen != nullptr) settings.listen = options->listen;
    settings.port = options->port;
    settings.with_copies = options->without_copies == 0;
    settings.fixed = options->fixed != 0;
    if (options->size != nullptr)
      settings.size = [size = options->size, user = options->user](int wanted, int present) {
        size(user, wanted, present);
      };
    DL_TRY_ASSIGN(settings.secret, random_secret());
    const std::string secret = settings.secret;
    auto handle = std::make_unique<dlpool_directory>();
    DL_TRY_ASSIGN(handle->directory, Directory::open(std::move(settings)));
    // Whoever finds the secret finds the directory listening.
    DL_TRY(write_secret(file, secret));
    *out = handle.release();
    return {};
  });
}

int dlpool_directory_port(const dlpool_directory* directory) {
  return directory == nullptr || directory->mark.in_child() ? -1 : directory->directory->port();
}

dlpool_result dlpool_directory_facts(dlpool_directory* directory, dlpool_facts* facts) {
  return answer([&]() -> Status {
    if (directory == nullptr || facts == nullptr) return invalid("directory or facts: the pointer is NULL");
    DL_TRY(check_process(directory->mark, "directory"));
    DL_TRY(check_size(facts->struct_size, sizeof *facts, "dlpool_facts"));
    const DirectoryFacts now = directory->directory->facts();
    *facts = {sizeof *facts, now.members, now.wanted, now.unsettled, now.lost, now.moved, now.version};
    return {};
  });
}

void dlpool_directory_close(dlpool_directory* directory) {
  if (directory != nullptr && !directory->mark.in_child()) delete directory;
}

dlpool_result dlpool_member_create(const dlpool_options* options, const dlpool_object* object, dlpool_member** out) {
  if (out != nullptr) *out = nullptr;
  return answer([&]() -> Status {
    if (object == nullptr || out == nullptr) return invalid("object or out: the pointer is NULL");
    DL_TRY(check_size(object->struct_size, sizeof *object, "dlpool_object"));
    if (object->apply == nullptr || object->save == nullptr || object->load == nullptr || object->drop == nullptr)
      return invalid("object: apply, save, load or drop is NULL");
    DL_TRY_ASSIGN(Place place, place_of(options));
    auto handle = std::make_unique<dlpool_member>();
    handle->object = std::make_unique<CObject>(*object);
    DL_TRY_ASSIGN(handle->member,
                  Member::create(std::move(place.directory), std::move(place.secret), handle->object.get()));
    *out = handle.release();
    return {};
  });
}

dlpool_result dlpool_member_serve(dlpool_member* member) {
  const dlpool_result result = answer([&]() -> Status {
    if (member == nullptr) return invalid("member: the pointer is NULL");
    DL_TRY(check_process(member->mark, "member"));
    if (std::exchange(member->served, true))
      return Error{Errc::kBusy, "this member has served already; create another"};
    return member->member->serve();
  });
  return result == DLPOOL_E_IO ? DLPOOL_E_PEER : result;
}

void dlpool_member_leave(dlpool_member* member) {
  if (member != nullptr && !member->mark.in_child()) member->member->leave();
}

void dlpool_member_destroy(dlpool_member* member) {
  if (member != nullptr && !member->mark.in_child()) delete member;
}

dlpool_result dlpool_client_open(const dlpool_options* options, dlpool_client** out) {
  if (out != nullptr) *out = nullptr;
  return answer([&]() -> Status {
    if (out == nullptr) return invalid("out: the pointer is NULL");
    DL_TRY_ASSIGN(Place place, place_of(options));
    const double timeout_s = options != nullptr && options->timeout_s != 0 ? options->timeout_s : 60;
    if (!std::isfinite(timeout_s) || timeout_s < 0 || timeout_s > 86400)
      return invalid("timeout_s: " + std::to_string(timeout_s) + " is out of range; allowed: 0 (60 s) to 86400");
    auto handle = std::make_unique<dlpool_client>();
    DL_TRY_ASSIGN(handle->client, Client::open(std::move(place.directory), std::move(place.secret), timeout_s));
    *out = handle.release();
    return {};
  });
}

}  // extern "C"

namespace {

dlpool_result result_of(AnswerStatus status) {
  switch (status) {
    case AnswerStatus::kDone:
      return DLPOOL_OK;
    case AnswerStatus::kFailed:
      return DLPOOL_E_OBJECT;
    case AnswerStatus::kGap:
      return DLPOOL_E_LOST;
    case AnswerStatus::kFull:
      return DLPOOL_E_FULL;
    default:
      return DLPOOL_E_INTERNAL;
  }
}

std::string sentence_of(const Call& call) {
  const std::string slot = std::to_string(slot_of(call.key));
  switch (call.status) {
    case AnswerStatus::kFailed:
      return call.answer;
    case AnswerStatus::kGap:
      return "the pool has lost the state of slot " + slot +
             " with members that were killed; start a new pool from a checkpoint";
    case AnswerStatus::kFull:
      return "too many clients have updated slot " + slot +
             " and were not closed; allowed: " + std::to_string(kMostClients);
    default:
      return "a member of the pool did not understand a call; are all of one version?";
  }
}

// What was carried out is told also where there is no memory for a sentence.
void keep_sentence(dlpool_result result, const Call& call) noexcept {
  try {
    keep(result, sentence_of(call));
  } catch (const std::exception&) {
    last_error.clear();
  }
}

Result<std::vector<Call>> read_calls(const dlpool_call* calls, size_t count) {
  std::vector<Call> all(count);
  for (size_t i = 0; i < count; ++i) {
    const dlpool_call& call = calls[i];
    if ((call.key == nullptr && call.key_size > 0) || (call.bytes == nullptr && call.size > 0))
      return invalid("call " + std::to_string(i) + ": key or bytes is NULL");
    if (call.key_size > kMostKey || call.size > kMostBytes)
      return invalid("call " + std::to_string(i) + ": a key of " + std::to_string(call.key_size) + " bytes with " +
                     std::to_string(call.size) + " bytes is too long; allowed: 1024, and 64 MiB");
    all[i].kind = call.read != 0 ? Kind::kRead : Kind::kUpdate;
    all[i].key.assign(static_cast<const char*>(call.key), call.key_size);
    all[i].bytes.assign(static_cast<const char*>(call.bytes), call.size);
  }
  return all;
}

}  // namespace

extern "C" {

dlpool_result dlpool_call_many(dlpool_client* client, dlpool_call* calls, size_t count) {
  dlpool_result first = DLPOOL_OK;
  const dlpool_result done = answer([&]() -> Status {
    if (client == nullptr || (calls == nullptr && count > 0)) return invalid("client or calls: the pointer is NULL");
    DL_TRY(check_process(client->mark, "client"));
    DL_TRY_ASSIGN(auto all, read_calls(calls, count));
    client->calls = std::move(all);
    DL_TRY(client->client->call(&client->calls));
    for (size_t i = 0; i < count; ++i) {
      const Call& call = client->calls[i];
      calls[i].result = result_of(call.status);
      calls[i].answer = call.answer.data();
      calls[i].answer_size = call.answer.size();
      if (first == DLPOOL_OK && calls[i].result != DLPOOL_OK) keep_sentence(first = calls[i].result, call);
    }
    return {};
  });
  if (done == DLPOOL_OK) return first;
  for (size_t i = 0; calls != nullptr && i < count; ++i) {
    calls[i].result = done;
    calls[i].answer = nullptr;
    calls[i].answer_size = 0;
  }
  return done;
}

void dlpool_client_close(dlpool_client* client) {
  if (client == nullptr || client->mark.in_child()) return;
  answer([&]() -> Status {
    client->client->farewell(2);
    return {};
  });
  delete client;
}

}  // extern "C"
