// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/png_picture.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>

#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "common/process/child_process.h"
#include "launcher/ctl/memory_file.h"

namespace dl::ctl {
namespace {

constexpr double kPngScale = 2, kMostPngPixels = 32000;  // librsvg draws 32767 pixels in either direction
constexpr std::chrono::seconds kPngLimit{60};
constexpr size_t kMostPngComplaint = 300;
constexpr std::string_view kPngBegin("\x89PNG\r\n\x1a\n"), kPngEnd("IEND\xae\x42\x60\x82");

Result<std::string> all_of(int file) {
  struct stat status = {};
  if (::fstat(file, &status) != 0) return errno_error("memory for the picture", errno);
  std::string text(static_cast<size_t>(status.st_size), '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t done = ::pread(file, text.data() + have, text.size() - have, static_cast<off_t>(have));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno_error("memory for the picture", errno);
    if (done == 0) break;
    have += static_cast<size_t>(done);
  }
  text.resize(have);
  return text;
}

bool is_png(std::string_view text) {
  return text.size() > kPngBegin.size() + kPngEnd.size() && text.substr(0, kPngBegin.size()) == kPngBegin &&
         text.substr(text.size() - kPngEnd.size()) == kPngEnd;
}

}  // namespace

Result<std::string> png_of(const plot::Drawing& drawing) {
  const std::string program = find_program("rsvg-convert");
  if (program.empty())
    return Error{Errc::kUnsupported,
                 "a PNG is made by the program rsvg-convert, which is not in PATH; install it (Debian: librsvg2-bin, "
                 "Fedora and RHEL: librsvg2-tools), or take --svg, which needs no other program"};
  const double scale = std::min(kPngScale, kMostPngPixels / std::max({drawing.width, drawing.height, 1.0}));
  DL_TRY_ASSIGN(const UniqueFd in, memory_file(drawing.svg));
  DL_TRY_ASSIGN(const UniqueFd out, memory_file(""));
  DL_TRY_ASSIGN(const UniqueFd complaint, memory_file(""));
  SpawnOptions options;
  // White at the edges, too, where the picture ends within a pixel.
  options.argv = {program, "--format", "png", "--background-color", "white", "--zoom", fmt::format("{:.4g}", scale)};
  options.stdin_fd = in.get();
  options.stdout_fd = out.get();
  options.stderr_fd = complaint.get();
  options.parent_death_signal = SIGKILL;
  DL_TRY_ASSIGN(const pid_t child, spawn_process(options));
  end_child(child, kPngLimit);
  Result<std::string> png = all_of(out.get());
  if (!png || is_png(*png)) return png;
  DL_TRY_ASSIGN(const std::string said, all_of(complaint.get()));
  const std::string_view why = trim(said);
  return Error{Errc::kIo, printable(program, 300) + " made no picture: " +
                              (why.empty() ? "it said nothing" : printable(why, kMostPngComplaint)) +
                              "; --svg needs no other program"};
}

}  // namespace dl::ctl
