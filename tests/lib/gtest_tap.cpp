// SPDX-License-Identifier: Apache-2.0
// main() for every GoogleTest program: runs the tests and reports them as TAP 13, which automake's driver reads.
// GoogleTest's own printer stays too when DL_TEST_VERBOSE is set.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::string comment(const std::string& text) {
  std::string out = "# ";
  for (char c : text) {
    out += c;
    if (c == '\n') out += "# ";
  }
  return out + "\n";
}

class TapPrinter : public testing::EmptyTestEventListener {
 public:
  void OnTestProgramStart(const testing::UnitTest& unit) override {
    std::printf("TAP version 13\n1..%d\n", unit.test_to_run_count());
    std::fflush(stdout);
  }

  void OnTestStart(const testing::TestInfo& /*info*/) override {
    failures_.clear();
    skip_reason_.clear();
  }

  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (part.passed()) return;
    const std::string message = part.message() != nullptr ? part.message() : "";
    if (part.skipped()) {
      skip_reason_ = message;
      return;
    }
    const char* file = part.file_name() != nullptr ? part.file_name() : "?";
    failures_ += comment(std::string(file) + ":" + std::to_string(part.line_number()) + ": " + message);
  }

  void OnTestEnd(const testing::TestInfo& info) override {
    ++number_;
    std::printf("%s %d - %s.%s", info.result()->Failed() ? "not ok" : "ok", number_, info.test_suite_name(),
                info.name());
    if (info.result()->Skipped()) {
      for (char& c : skip_reason_)
        if (c == '\n') c = ' ';
      std::printf(" # SKIP %s", skip_reason_.c_str());
    }
    std::printf("\n%s", failures_.c_str());
    std::fflush(stdout);
  }

 private:
  int number_ = 0;
  std::string failures_;
  std::string skip_reason_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (std::getenv("DL_TEST_VERBOSE") == nullptr) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new TapPrinter);
  return RUN_ALL_TESTS();
}
