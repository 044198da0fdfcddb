// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/serve.h"

namespace dl::rendezvous {
namespace {

// The most bytes that the request can add to the store.
size_t cost(const Request& request) {
  size_t bytes = TorchStore::kEntryBytes;
  for (const std::string& key : request.keys) bytes += key.size() + 2 * TorchStore::kEntryBytes;
  for (const std::string& value : request.values) bytes += value.size() + TorchStore::kEntryBytes;
  return bytes;
}

bool grows(Op op) {
  switch (op) {
    case Op::kSet:
    case Op::kCompareSet:
    case Op::kAdd:
    case Op::kWait:
    case Op::kAppend:
    case Op::kMultiSet:
    case Op::kQueuePush:
    case Op::kBarrier:
      return true;
    default:
      return false;
  }
}

Error too_large() {
  return Error{Errc::kNoSpace, "the reply would be larger than the store's limit; ask for fewer keys at once"};
}

Status multi_get(const TorchStore& store, const Request& request, const ServeLimits& limits, std::string* reply) {
  size_t bytes = 0;
  for (const std::string& key : request.keys) {
    const std::string* value = store.get(key);
    bytes += sizeof(int64_t) + (value != nullptr ? value->size() : 0);
  }
  if (bytes > limits.reply_bytes) return too_large();
  reply->reserve(reply->size() + bytes);
  for (const std::string& key : request.keys) {
    const std::string* value = store.get(key);
    put_text(reply, value != nullptr ? *value : std::string());
  }
  return {};
}

Status list_keys(const TorchStore& store, const ServeLimits& limits, std::string* reply) {
  if (store.bytes() > limits.reply_bytes) return too_large();
  const std::vector<std::string> keys = store.keys();
  put_i64(reply, static_cast<int64_t>(keys.size()));
  for (const std::string& key : keys) put_text(reply, key);
  return {};
}

}  // namespace

Status serve(TorchStore* store, ClientId client, Request&& request, const ServeLimits& limits, std::string* reply) {
  if (grows(request.op) && store->bytes() + cost(request) > limits.store_bytes)
    return Error{Errc::kNoSpace, "the store is full: it holds " + std::to_string(store->bytes()) + " bytes of " +
                                     std::to_string(limits.store_bytes)};
  switch (request.op) {
    case Op::kValidate:
      break;
    case Op::kPing:
      put_u32(reply, static_cast<uint32_t>(request.number));
      break;
    case Op::kSet:
      store->set(request.keys[0], std::move(request.values[0]));
      break;
    case Op::kCompareSet:
      put_text(reply, store->compare_set(request.keys[0], request.values[0], request.values[1]));
      break;
    case Op::kGet:
    case Op::kMultiGet:
      return multi_get(*store, request, limits, reply);
    case Op::kAdd: {
      DL_TRY_ASSIGN(const int64_t sum, store->add(request.keys[0], request.number));
      put_i64(reply, sum);
      break;
    }
    case Op::kCheck:
      put_u8(reply, store->check(request.keys) ? kReady : kNotReady);
      break;
    case Op::kWait:
      if (store->wait(client, request.keys)) put_u8(reply, kStopWaiting);
      break;
    case Op::kCancelWait:
      store->cancel_wait(client);
      put_u8(reply, kWaitCanceled);
      break;
    case Op::kNumKeys:
      put_i64(reply, store->size());
      break;
    case Op::kDelete:
      put_i64(reply, store->remove(request.keys[0]) ? 1 : 0);
      break;
    case Op::kAppend:
      store->append(request.keys[0], request.values[0]);
      break;
    case Op::kMultiSet:
      for (size_t i = 0; i < request.keys.size(); ++i) store->set(request.keys[i], std::move(request.values[i]));
      break;
    case Op::kQueuePush:
      store->push(request.keys[0], std::move(request.values[0]));
      break;
    case Op::kQueuePop: {
      std::string value;
      const int64_t count = store->pop(request.keys[0], &value);
      put_i64(reply, count);
      if (count > 0) put_text(reply, value);
      break;
    }
    case Op::kQueueLen:
      put_i64(reply, store->queue_size(request.keys[0]));
      break;
    case Op::kListKeys:
      return list_keys(*store, limits, reply);
    case Op::kBarrier: {
      DL_TRY_ASSIGN(const bool through, store->barrier(client, request.keys[0], request.number));
      if (through) put_u8(reply, kStopWaiting);
      break;
    }
  }
  return {};
}

}  // namespace dl::rendezvous
