// SPDX-License-Identifier: Apache-2.0
// dl-agent: dlrun starts one for each learner (agent.h). dlrun also runs `dl-agent --sweep NAME=VALUE` once on each
// node after an agent was killed (descendants.h, progress_file.h, pmix_server.h). Users do not call it.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

#include "common/base/standard_files.h"
#include "common/process/descendants.h"
#include "launcher/agent/agent.h"
#include "launcher/agent/pmix_server.h"
#include "launcher/protocol/progress_file.h"

int main(int argc, char** argv) try {
  dl::open_closed_standard_files();
  if (argc == 3 && std::string(argv[1]) == "--sweep") {
    dl::sweep_marked(argv[2]);
    dl::protocol::remove_orphaned_pages();
    dl::agent::PmixServer::remove_left();
    return 0;
  }
  if (argc != 1) {
    std::fprintf(stderr, "dl-agent: this program is started by dlrun; see dlrun(1)\n");
    return 2;
  }
  const dl::Result<dl::agent::Agent::End> end = dl::agent::Agent().run();
  if (end && *end != dl::agent::Agent::End::kAgain) return static_cast<int>(*end);
  if (end) {
    // /proc/self/exe is the file that runs now, even if a newer version has replaced it at its path.
    ::execv("/proc/self/exe", argv);
    std::perror("dl-agent: this program could not start itself again");
    return 1;
  }
  std::fprintf(stderr, "dl-agent: %s\n", end.error().text.c_str());
  return 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "dl-agent: %s\n", e.what());
  return 1;
}
