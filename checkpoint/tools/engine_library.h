// SPDX-License-Identifier: Apache-2.0
// libdlckpt, loaded only when it is needed: the tool itself runs without HDF5. It only uses the public C API.
#pragma once

#include <string>

#include "checkpoint/include/dlckpt.h"
#include "common/base/result.h"

namespace dl::ckpt::tool {

struct Engine {
  decltype(&dlckpt_open) open = nullptr;
  decltype(&dlckpt_open_error) open_error = nullptr;
  decltype(&dlckpt_close) close = nullptr;
  decltype(&dlckpt_tensor) tensor = nullptr;
  decltype(&dlckpt_save) save = nullptr;
  decltype(&dlckpt_restore) restore = nullptr;
  decltype(&dlckpt_errmsg) errmsg = nullptr;
  decltype(&dlckpt_version) version = nullptr;
  // nullptr in libraries whose saves are always durable when they return, and which therefore lack it.
  int (*wait)(dlckpt_ctx* ctx, double timeout_s, int64_t* durable_step) = nullptr;
  std::string path;  // path of the library
};

// Looks for it in DLCKPT_LIBRARY (and then nowhere else), beside the program (build tree), in ../lib, ../lib64 and
// ../lib/* of that, and in the places of the system. kUnsupported if it is not found or too old. It stays loaded until
// the program ends.
Result<Engine> load_engine();

// Removes the DL_* variables of a job (directory, lease, rank, intervals) from the environment, so that libdlckpt does
// not take a tool that runs inside a job for one of its learners. `keep_tuning` keeps DL_CHECKPOINT_MODE and the like.
void leave_job_environment(bool keep_tuning);

// Owns a context of the library and closes it on destruction. It turns the library's errors into ours.
class EngineContext {
 public:
  EngineContext(const Engine& engine, dlckpt_ctx* ctx) : engine_(&engine), ctx_(ctx) {}
  EngineContext(const EngineContext&) = delete;
  EngineContext& operator=(const EngineContext&) = delete;
  ~EngineContext() { close(); }
  void close();
  dlckpt_ctx* get() const { return ctx_; }
  // OK for DLCKPT_OK, else an error with the context's message.
  Status check(int rc) const;

 private:
  const Engine* engine_;
  dlckpt_ctx* ctx_;
};

// A context of a single rank on `dir`, which keeps every existing checkpoint.
Result<dlckpt_ctx*> open_single(const Engine& engine, const std::string& dir, const std::string& run_id, int keep);

}  // namespace dl::ckpt::tool
