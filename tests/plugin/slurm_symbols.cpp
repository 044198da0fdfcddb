// SPDX-License-Identifier: Apache-2.0
#include "tests/plugin/slurm_symbols.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace dl::test {
namespace {

constexpr uint64_t kMagic = 0x736c75726d616c6c;
struct Header {
  uint64_t magic;
  uint64_t size;
};
std::atomic<long> in_use{0};

std::mutex log_mutex;
std::vector<std::string> errors;
std::vector<std::string> infos;

void keep(std::vector<std::string>* lines, const char* format, va_list arguments) {
  char text[4096];
  (void)std::vsnprintf(text, sizeof text, format, arguments);
  const std::lock_guard<std::mutex> lock(log_mutex);
  lines->emplace_back(text);
}

}  // namespace

std::vector<std::string> logged_errors() {
  const std::lock_guard<std::mutex> lock(log_mutex);
  return errors;
}
std::vector<std::string> logged_infos() {
  const std::lock_guard<std::mutex> lock(log_mutex);
  return infos;
}
void clear_log() {
  const std::lock_guard<std::mutex> lock(log_mutex);
  errors.clear();
  infos.clear();
}
long blocks_in_use() {
  return in_use;
}

std::string source_folder() {
  const char* top = std::getenv("top_srcdir");
  return top == nullptr ? ".." : top;
}

void* load_plugin(const char* name) {
  const char* top = std::getenv("top_builddir");
  const std::string path = std::string(top == nullptr ? "." : top) + "/slurm-plugin/.libs/" + name;
  void* plugin = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (plugin == nullptr) {
    (void)std::fprintf(stderr, "%s\n", ::dlerror());
    std::abort();
  }
  return plugin;
}

void* find_symbol(void* plugin, const char* name) {
  return ::dlsym(plugin, name);
}

}  // namespace dl::test

extern "C" {

void* slurm_xcalloc(size_t count, size_t size, bool, bool, const char*, int, const char*) {
  auto* header = static_cast<dl::test::Header*>(std::calloc(1, sizeof(dl::test::Header) + count * size));
  header->magic = dl::test::kMagic;
  header->size = count * size;
  ++dl::test::in_use;
  return header + 1;
}

void slurm_xfree(void** pointer) {
  if (*pointer == nullptr) return;
  auto* header = static_cast<dl::test::Header*>(*pointer) - 1;
  if (header->magic != dl::test::kMagic) {
    (void)std::fprintf(stderr, "slurm_xfree of a block that is not Slurm's\n");
    std::abort();
  }
  std::memset(header, 0x5a, sizeof *header + header->size);
  std::free(header);
  --dl::test::in_use;
  *pointer = nullptr;
}

char* slurm_xstrdup(const char* text) {
  if (text == nullptr) return nullptr;
  auto* copy = static_cast<char*>(slurm_xcalloc(std::strlen(text) + 1, 1, true, false, nullptr, 0, nullptr));
  std::strcpy(copy, text);  // NOLINT(clang-analyzer-security.insecureAPI.strcpy): room for it was just made
  return copy;
}

__attribute__((format(printf, 1, 2))) void slurm_error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  dl::test::keep(&dl::test::errors, format, arguments);
  va_end(arguments);
}

__attribute__((format(printf, 1, 2))) void slurm_info(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  dl::test::keep(&dl::test::infos, format, arguments);
  va_end(arguments);
}

}  // extern "C"
