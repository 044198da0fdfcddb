// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/engine_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <vector>

extern char** environ;

namespace dl::ckpt::tool {
namespace {

constexpr const char* kSoname = "libdlckpt.so.1";

std::vector<std::string> candidates() {
  if (const char* given = std::getenv("DLCKPT_LIBRARY"); given && *given) return {given};
  std::vector<std::string> paths;
  char program[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", program, sizeof program - 1);
  if (n > 0) {
    std::string dir(program, static_cast<size_t>(n));
    dir.resize(dir.rfind('/'));
    for (const char* place : {"/.libs/", "/", "/../lib/", "/../lib64/"}) paths.push_back(dir + place + kSoname);
    glob_t found{};
    if (::glob((dir + "/../lib/*/" + kSoname).c_str(), 0, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
    ::globfree(&found);
  }
  paths.emplace_back(kSoname);
  return paths;
}

// True if the library has all functions that are needed.
bool bind(void* library, Engine* engine) {
  const auto find = [library](auto* function, const char* name) {
    *reinterpret_cast<void**>(function) = ::dlsym(library, name);
    return *function != nullptr;
  };
  find(&engine->wait, "dlckpt_wait");
  return find(&engine->open, "dlckpt_open") && find(&engine->open_error, "dlckpt_open_error") &&
         find(&engine->close, "dlckpt_close") && find(&engine->tensor, "dlckpt_tensor") &&
         find(&engine->save, "dlckpt_save") && find(&engine->restore, "dlckpt_restore") &&
         find(&engine->errmsg, "dlckpt_errmsg") && find(&engine->version, "dlckpt_version");
}

Errc to_errc(int rc) {
  switch (rc) {
    case DLCKPT_E_INVALID:
      return Errc::kInvalid;
    case DLCKPT_E_NOT_FOUND:
      return Errc::kNotFound;
    case DLCKPT_E_BUSY:
      return Errc::kBusy;
    case DLCKPT_E_DENIED:
      return Errc::kDenied;
    case DLCKPT_E_NO_SPACE:
      return Errc::kNoSpace;
    case DLCKPT_E_CORRUPT:
      return Errc::kCorrupt;
    case DLCKPT_E_MISMATCH:
      return Errc::kConflict;
    case DLCKPT_E_TIMEOUT:
      return Errc::kTimeout;
    case DLCKPT_E_INTERNAL:
      return Errc::kInternal;
    default:
      return Errc::kIo;
  }
}

}  // namespace

Result<Engine> load_engine() {
  std::string last;
  for (const std::string& path : candidates()) {
    const bool is_path = path.find('/') != std::string::npos;
    if (is_path && ::access(path.c_str(), R_OK) != 0 && !std::getenv("DLCKPT_LIBRARY")) continue;
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* reason = ::dlerror();
      last = reason ? reason : path;
      continue;
    }
    Engine engine;
    engine.path = path;
    if (bind(library, &engine)) return engine;
    last = path + ": it is another version";
  }
  return Error{Errc::kUnsupported, "writing checkpoints needs libdlckpt: " + last};
}

void leave_job_environment(bool keep_tuning) {
  const std::string tuning = "DL_CHECKPOINT_";
  const std::vector<std::string> of_the_job = {"DL_CHECKPOINT_DIR", "DL_CHECKPOINT_LEASE", "DL_CHECKPOINT_LOCAL"};
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (name.compare(0, 3, "DL_") != 0) continue;
    bool keep = keep_tuning && name.compare(0, tuning.size(), tuning) == 0;
    for (const std::string& other : of_the_job) keep = keep && name != other;
    if (!keep) names.push_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

void EngineContext::close() {
  if (ctx_) engine_->close(ctx_);
  ctx_ = nullptr;
}

Status EngineContext::check(int rc) const {
  if (rc == DLCKPT_OK) return {};
  return Error{to_errc(rc), engine_->errmsg(ctx_)};
}

Result<dlckpt_ctx*> open_single(const Engine& engine, const std::string& dir, const std::string& run_id, int keep) {
  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.dir = dir.c_str();
  options.rank = 0;
  options.world_size = 1;
  options.run_id = run_id.c_str();
  options.keep = keep;
  dlckpt_ctx* ctx = nullptr;
  const int rc = engine.open(&options, &ctx);
  if (rc != DLCKPT_OK) return Error{to_errc(rc), engine.open_error()};
  return ctx;
}

}  // namespace dl::ckpt::tool
