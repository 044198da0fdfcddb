// SPDX-License-Identifier: Apache-2.0
// dl-seal: lets the sockets of one job speak only to its own nodes and to what dl.toml lists. spank_dl.so runs it as
// root on each of the job's nodes.
//
//   dl-seal on JOB NODES DL_TOML   before the job: makes its cgroup and rules, and notes in /run/slurm-dl whether this
//                                  worked. DL_TOML "": the default place
//   dl-seal attach JOB             in a task, where Slurm itself uses cgroups of version 2: makes the rules for the
//                                  cgroup in which Slurm has put the job
//   dl-seal off JOB                after the job: removes cgroup and rules
//
// Every failure is noted, and spank_dl.so then starts no task of the job: a job that must be sealed never runs without
// its rules.
#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "common/base/atomic_file.h"
#include "common/base/hostlist.h"
#include "common/base/ip_prefix.h"
#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "common/site/site_config.h"
#include "slurm-plugin/network/rules.h"
#include "slurm-plugin/network/seal_place.h"

namespace dl::network {
namespace {

constexpr size_t kMaxConf = 8 << 20;
constexpr size_t kMaxNodes = 100'000;
constexpr std::chrono::seconds kMostLookups{15};
constexpr const char* kCgroupRoot = "/sys/fs/cgroup";

std::string text_of_file(const std::string& path) {
  auto text = read_small_file(path, kMaxConf);
  return text ? *std::move(text) : std::string();
}

// The text of slurm.conf and of the files that it includes, as slurmd on this node has them.
std::string slurm_conf() {
  const char* given = std::getenv("SLURM_CONF");  // NOLINT(concurrency-mt-unsafe): one thread
  for (const std::string& path :
       {std::string(given == nullptr ? "" : given), std::string(DL_SLURMCONFDIR "/slurm.conf"),
        std::string("/run/slurm/conf/slurm.conf")}) {
    if (path.empty()) continue;
    std::string text = text_of_file(path);
    if (text.empty()) continue;
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    std::string more;
    for (const std::string& line : split(text, '\n')) {
      std::string name(trim(line));
      if (name.rfind("Include ", 0) != 0 && name.rfind("include ", 0) != 0) continue;
      name = trim(std::string_view(name).substr(8));
      more += "\n" + text_of_file(name.front() == '/' ? name : folder + name);
    }
    return text + more;
  }
  return "";
}

// All addresses of a name; an address is returned as it is.
std::vector<std::string> resolve(const std::string& name) {
  std::vector<std::string> found;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return found;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 &&
        std::string(text).find('%') == std::string::npos)
      found.emplace_back(text);
  }
  return found;
}

Result<std::vector<std::string>> peers_of(const std::string& node_list, const SiteConfig& site) {
  DL_TRY_ASSIGN(const std::vector<std::string> nodes, expand_hostlist(node_list, kMaxNodes));
  if (nodes.empty()) return Error{Errc::kInvalid, "Slurm does not say which nodes the job has: the list is empty"};
  const SlurmAddresses known = addresses_in(slurm_conf(), nodes);
  std::vector<std::string> peers = site.network.allow;
  // A name server that does not answer must not delay the prolog of a large job for hours.
  const auto until = std::chrono::steady_clock::now() + kMostLookups;
  const auto add = [&](const std::string& name) {
    if (std::chrono::steady_clock::now() > until) return false;
    const std::vector<std::string> found = resolve(name);
    peers.insert(peers.end(), found.begin(), found.end());
    return !found.empty();
  };
  // an srun in the job connects to the controllers
  for (const std::string& controller : known.controllers) (void)add(controller);
  for (size_t i = 0; i < nodes.size(); ++i) {
    // A name is not looked up if slurm.conf gives the node's address.
    const bool address = static_cast<bool>(parse_ip_prefix(known.nodes[i]));
    const bool at_its_name = !address && known.nodes[i] != nodes[i] && add(nodes[i]);
    const bool there = add(known.nodes[i]);
    if (std::chrono::steady_clock::now() > until)
      return Error{
          Errc::kTimeout,
          fmt::format("the names of {} nodes took longer than {} s to look up; allowed: NodeAddr with addresses "
                      "in slurm.conf",
                      nodes.size(), kMostLookups.count())};
    if (!there && !at_its_name)
      return Error{Errc::kNotFound, fmt::format("node {} of the job has no address here", nodes[i])};
    for (const std::string& pattern : site.network.names) {
      std::string name = pattern;
      name.replace(name.find("%n"), 2, nodes[i]);
      (void)add(name);
    }
  }
  return peers;
}

Status load(const std::string& rules) {
  CommandOptions options;
  options.environment = {"PATH=/usr/sbin:/sbin:/usr/bin:/bin"};
  options.timeout = std::chrono::seconds(20);
  // The rules are passed in a file, because run_command() accepts at most 64 KiB for standard input.
  char path[] = "/run/slurm-dl/rules.XXXXXX";
  const int fd = ::mkostemp(path, O_CLOEXEC);
  if (fd < 0) return errno_error("make /run/slurm-dl/rules", errno);
  ::close(fd);
  Status written = replace_file(path, rules, 0600);
  auto done = written ? run_command({"/usr/sbin/nft", "-f", path}, options) : Result<CommandResult>(written.error());
  ::unlink(path);
  if (!done) return std::move(done).error().with_context("nft");
  if (!done->ok()) return Error{Errc::kUnsupported, "nft refuses the rules: " + printable(done->err, 300)};
  return {};
}

// The path of the cgroup relative to the place where nft looks for cgroups.
Result<std::string> for_nft(const std::string& mount, const std::string& path) {
  const std::string root = kCgroupRoot;
  if (mount != root && mount.rfind(root + "/", 0) != 0)
    return Error{Errc::kUnsupported, fmt::format("the cgroups of version 2 are mounted at {}, where nft does not look; "
                                                 "allowed: {} or a folder in it",
                                                 mount, root)};
  return (mount + path).substr(root.size() + 1);
}

struct Job {
  int64_t id = 0;
  std::string note;    // path of its note in /run/slurm-dl
  std::string cgroup;  // the cgroup that dl-seal makes, relative to the mount point
  std::string mount;   // mount point of the cgroups of version 2; empty: none
};

Status seal(const Job& job, const std::string& node_list, const std::string& config) {
  DL_TRY_ASSIGN(const SiteConfig site, load_site_config(config.empty() ? default_site_config_path(false) : config));
  if (job.mount.empty())
    return Error{Errc::kUnsupported,
                 "no cgroups of version 2 are mounted on this node; allowed: mount -t cgroup2 none "
                 "/sys/fs/cgroup/unified (the other controllers may stay with version 1)"};
  DL_TRY_ASSIGN(const std::vector<std::string> peers, peers_of(node_list, site));
  DL_TRY_ASSIGN(const std::string path, for_nft(job.mount, job.cgroup));
  DL_TRY(make_directories(job.mount + job.cgroup, 0755));
  DL_TRY_ASSIGN(const std::string rules, rules_text(job.id, path, depth_of(job.cgroup), peers));
  DL_TRY(load(rules));
  // A task needs these addresses for rules of its own if it runs in a cgroup that Slurm made.
  return write_file_atomically(job.note + ".peers", join(peers, "\n"), 0600);
}

int on(const Job& job, const std::string& node_list, const std::string& config) {
  Status sealed = make_directories(kNoteFolder, 0755);
  if (!sealed) {
    std::fprintf(stderr, "dl-seal: %s\n", sealed.error().text.c_str());
    return 1;
  }
  sealed = seal(job, node_list, config);
  if (!sealed)
    std::fprintf(stderr, "dl-seal: job %lld: %s\n", static_cast<long long>(job.id), sealed.error().text.c_str());
  const std::string note = sealed ? "sealed " + job.mount + job.cgroup : "refused " + sealed.error().text;
  if (Status noted = write_file_atomically(job.note, note + "\n", 0600); !noted) {
    std::fprintf(stderr, "dl-seal: %s\n", noted.error().text.c_str());
    return 1;
  }
  return 0;
}

Status attach(const Job& job) {
  const auto own = slurm_job_cgroup(text_of_file("/proc/self/cgroup"), job.id);
  if (!own) return Error{Errc::kUnsupported, "Slurm has no cgroup of version 2 for this job"};
  DL_TRY_ASSIGN(const std::string path, for_nft(job.mount, *own));
  DL_TRY_ASSIGN(const std::string peers, read_small_file(job.note + ".peers", kMaxConf));
  DL_TRY_ASSIGN(const std::string rules, rules_text(job.id, path, depth_of(*own), split(peers, '\n')));
  return load(rules);
}

int off(const Job& job) {
  (void)load(no_rules_text(job.id));
  if (!job.mount.empty()) ::rmdir((job.mount + job.cgroup).c_str());
  ::unlink((job.note + ".peers").c_str());
  ::unlink(job.note.c_str());
  return 0;
}

int run(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  const auto id = argc > 2 ? parse_int(argv[2], 1, UINT32_MAX) : Result<int64_t>(Error{});
  if (!id || (verb == "on") != (argc == 5) || (verb != "on" && argc != 3)) {
    std::fprintf(stderr,
                 "usage: dl-seal on JOB NODES DL_TOML | attach JOB | off JOB; spank_dl.so runs it, see spank_dl(8)\n");
    return 2;
  }
  Job job;
  job.id = *id;
  job.note = note_of(*id);
  job.cgroup = seal_cgroup(*id);
  job.mount = cgroup2_mount(text_of_file("/proc/self/mountinfo")).value_or("");
  if (verb == "on") return on(job, argv[3], argv[4]);
  if (verb == "off") return off(job);
  const Status attached = verb == "attach"
                              ? attach(job)
                              : Status(Error{Errc::kInvalid, "'" + verb + "' is not a verb; allowed: on, attach, off"});
  if (!attached) std::fprintf(stderr, "dl-seal: job %s: %s\n", argv[2], attached.error().text.c_str());
  return attached ? 0 : 1;
}

}  // namespace
}  // namespace dl::network

int main(int argc, char** argv) {
  return dl::network::run(argc, argv);
}
