// SPDX-License-Identifier: Apache-2.0
// dlsim decide
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "common/base/parse.h"
#include "slurm-plugin/sim/command.h"
#include "slurm-plugin/sim/decide/question.h"

namespace dl::sim {
namespace {

constexpr size_t kLongestLine = size_t{256} << 20;

struct Line {
  char* text = nullptr;
  size_t size = 0;
  ~Line() { std::free(text); }  // NOLINT(cppcoreguidelines-no-malloc): getline() allocates it
};

std::string answer(std::string_view line) {
  const auto began = std::chrono::steady_clock::now();
  const auto question = read_question(line);
  if (!question) return Json{{"error", question.error().text}}.dump();
  const auto read = std::chrono::steady_clock::now();
  Json json = answer_of(*question, policy::elastic::optimise(question->problem));
  json["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - read).count();
  json["seconds_to_read"] = std::chrono::duration<double>(read - began).count();
  return json.dump();
}

Status decide(const std::string& path) {
  const bool from_stdin = path == "-";
  const std::unique_ptr<FILE, int (*)(FILE*)> file(from_stdin ? stdin : std::fopen(path.c_str(), "re"),
                                                   from_stdin ? [](FILE*) { return 0; } : &std::fclose);
  if (!file) return errno_error("read " + printable(path), errno);
  Line line;
  int64_t questions = 0;
  int64_t wrong = 0;
  for (ssize_t length = 0; (length = ::getline(&line.text, &line.size, file.get())) >= 0;) {
    const std::string_view text = trim(std::string_view(line.text, static_cast<size_t>(length)));
    if (text.empty()) continue;
    ++questions;
    const std::string said =
        text.size() > kLongestLine ? Json{{"error", "the line is longer than 256 MiB"}}.dump() : answer(text);
    if (said.rfind("{\"error\"", 0) == 0) ++wrong;
    // The answer is flushed, since the program that asks waits for it before its next question.
    if (std::fputs((said + "\n").c_str(), stdout) < 0 || std::fflush(stdout) != 0)
      return Error{Errc::kIo, "the answer cannot be written to standard output"};
  }
  if (std::ferror(file.get()) != 0) return Error{Errc::kIo, printable(path) + " cannot be read to its end"};
  if (questions == 0)
    return Error{Errc::kInvalid, printable(path) + ": the file holds no question; allowed: one on each line"};
  if (wrong > 0)
    return Error{Errc::kInvalid, std::to_string(wrong) + " of " + std::to_string(questions) +
                                     " questions had no answer; their lines of the output say why"};
  return {};
}

}  // namespace

Run add_decide(CommandLine* line) {
  auto path = std::make_shared<std::string>();
  line->argument("QUESTIONS", path.get(), "JSON, a question on each line; - is standard input").required();
  return [path] { return decide(*path); };
}

}  // namespace dl::sim
