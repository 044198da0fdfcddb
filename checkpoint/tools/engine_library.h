// SPDX-License-Identifier: Apache-2.0
// libdlckpt, opened when it is needed: the tool itself runs where there is no HDF5. Only the public C API is used.
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
  // Not in libraries whose saves are always durable when they return; then nullptr.
  int (*wait)(dlckpt_ctx* ctx, double timeout_s, int64_t* durable_step) = nullptr;
  std::string path;  // where it was found
};

// Looks in DLCKPT_LIBRARY (then nowhere else), beside the program (build tree), in ../lib, ../lib64 and ../lib/* of it,
// and where the system looks. kUnsupported if it is nowhere or too old. Stays open to the end of the program.
Result<Engine> load_engine();

// Removes the DL_* variables of a job (directory, lease, rank, intervals) from the environment, so that libdlckpt does
// not take a tool that runs inside a job for one of its learners. `keep_tuning` leaves DL_CHECKPOINT_MODE and the like.
void leave_job_environment(bool keep_tuning);

// Owns a context of the library and closes it on destruction; turns the library's errors into ours.
class EngineContext {
 public:
  EngineContext(const Engine& engine, dlckpt_ctx* ctx) : engine_(&engine), ctx_(ctx) {}
  EngineContext(const EngineContext&) = delete;
  EngineContext& operator=(const EngineContext&) = delete;
  ~EngineContext() { close(); }
  void close();
  dlckpt_ctx* get() const { return ctx_; }
  // OK for DLCKPT_OK, else the context's sentence.
  Status check(int rc) const;

 private:
  const Engine* engine_;
  dlckpt_ctx* ctx_;
};

// A single rank's context on `dir` that keeps every checkpoint there is.
Result<dlckpt_ctx*> open_single(const Engine& engine, const std::string& dir, const std::string& run_id, int keep);

}  // namespace dl::ckpt::tool
