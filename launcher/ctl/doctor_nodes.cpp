// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"
#include "launcher/ctl/doctor_judge.h"

namespace dl::ctl::doctor {

Findings judge_gpus(const Facts& facts) {
  Findings found;
  const std::string types = slurm_setting(facts, "GresTypes"), select = slurm_setting(facts, "SelectType");
  const bool wanted = facts.site && (facts.site->gpus_per_node > 0 || !facts.site->gpus_per_node_by_type.empty() ||
                                     !facts.site->tenants.empty());
  if (!has_word(types, "gpu") && (wanted || facts.cluster.most_gpus > 0))
    found.push_back(wrong(
        fmt::format("GresTypes is {}: Slurm knows no GPUs; allowed: a list with gpu", types.empty() ? "empty" : types),
        slurm_conf_place(facts, "GresTypes"), fmt::format("GresTypes={}gpu", types.empty() ? "" : types + ",")));
  else if (facts.cluster.most_gpus == 0)
    found.push_back(note("no node has GPUs (Gres=gpu:N of its NodeName line, and gres.conf)"));
  if (select != "select/cons_tres")
    found.push_back(
        wrong(fmt::format("SelectType is {}: jobs cannot ask for GPUs by task or socket, which the --dl-* flags do; "
                          "allowed: select/cons_tres",
                          select.empty() ? "not told" : select),
              slurm_conf_place(facts, "SelectType"), "SelectType=select/cons_tres"));
  const std::string parameters = slurm_setting(facts, "SelectTypeParameters");
  if (parameters.find("MEMORY") == std::string::npos && parameters.find("Memory") == std::string::npos)
    found.push_back(
        note(fmt::format("SelectTypeParameters is {}: memory is not divided among the jobs of a node, so that one can "
                         "take all; allowed: CR_Core_Memory",
                         parameters.empty() ? "empty" : parameters),
             slurm_conf_place(facts, "SelectTypeParameters"), "SelectTypeParameters=CR_Core_Memory"));
  if (found.empty())
    found.push_back(ok(fmt::format("GresTypes={}, {} with {}; a node has up to {} GPUs", types, select, parameters,
                                   facts.cluster.most_gpus)));
  return found;
}

Findings judge_cgroups(const Facts& facts) {
  Findings found;
  const std::string track = slurm_setting(facts, "ProctrackType"), task = slurm_setting(facts, "TaskPlugin");
  if (track != "proctrack/cgroup")
    found.push_back(note(
        fmt::format("ProctrackType is {}: processes that leave their parent survive the end of their job and may hold "
                    "its GPUs; allowed: proctrack/cgroup",
                    track),
        slurm_conf_place(facts, "ProctrackType"), "ProctrackType=proctrack/cgroup"));
  const std::string devices = slurm_setting(facts, "ConstrainDevices");
  if (facts.cluster.most_gpus > 0) {
    if (task.find("cgroup") == std::string::npos)
      found.push_back(
          note(fmt::format(
                   "TaskPlugin is {}: a job can use the GPUs of others on its node; allowed: a list with task/cgroup",
                   task.empty() ? "empty" : task),
               slurm_conf_place(facts, "TaskPlugin"), "TaskPlugin=task/cgroup,task/affinity"));
    else if (devices != "yes")
      found.push_back(
          note(fmt::format("ConstrainDevices is {}: a job can use the GPUs of others on its node; allowed: yes",
                           devices.empty() ? "not set" : devices),
               facts.slurm_conf.path.substr(0, facts.slurm_conf.path.rfind('/') + 1) + "cgroup.conf",
               "ConstrainDevices=yes"));
  }
  if (found.empty()) found.push_back(ok(fmt::format("{} and {}; devices are constrained", track, task)));
  return found;
}

Findings judge_network(const Facts& facts) {
  const SiteConfig& site = *facts.site;
  std::string tenants;
  for (const SiteTenant& tenant : site.tenants)
    if (tenant.network_job) tenants += (tenants.empty() ? "" : ", ") + tenant.name;
  if (tenants.empty()) return {ok("no tenant has network = \"job\"")};
  if (!site.network.enforced)
    return {wrong(
        fmt::format("tenants with network = \"job\" ({}), and [network] enforce is not set: their jobs are refused; "
                    "allowed: \"nftables\"",
                    tenants),
        site_place(facts, "[network]"), "enforce = \"nftables\"")};
  const std::string flags = slurm_setting(facts, "PrologFlags");
  if (!has_word(flags, "alloc") && !has_word(flags, "contain"))
    return {wrong(
        fmt::format(
            "PrologFlags is {}: the rules of a job's network would come after its first task; allowed: Alloc or "
            "Contain (job_submit_dl(8))",
            flags.empty() ? "empty" : flags),
        slurm_conf_place(facts, "PrologFlags"), fmt::format("PrologFlags={}Alloc", flags.empty() ? "" : flags + ","))};
  return {ok(fmt::format("PrologFlags={}, as network = \"job\" of {} needs", flags, tenants))};
}

Findings judge_pmix(const Facts& facts) {
  if (facts.site->pmix != "slurm")
    return {ok(fmt::format("MPI learners get PMIx from dlrun's own servers, whatever MpiDefault is ({})",
                           slurm_setting(facts, "MpiDefault").empty() ? "none" : slurm_setting(facts, "MpiDefault")))};
  for (const std::string& name : facts.mpi)
    if (name.rfind("pmix", 0) == 0) return {ok("srun --mpi has " + name)};
  return {wrong(
      fmt::format("[launcher] pmix of dl.toml is \"slurm\", and srun --mpi knows {} here; allowed: pmix among them, or "
                  "\"dlrun\"",
                  facts.mpi.empty() ? "nothing" : join(facts.mpi, ", ")),
      facts.admin ? site_place(facts, "[launcher]") : "", "pmix = \"dlrun\"")};
}

Findings judge_tmp(const Facts& facts) {
  const std::string container = slurm_setting(facts, "JobContainerType"), tmp = slurm_setting(facts, "TmpFS");
  if (container == "job_container/tmpfs")
    return {
        note("JobContainerType is job_container/tmpfs: each job has a /tmp of its own, so local= of --dl-checkpoint "
             "under /tmp does "
             "not outlive its job; allowed, if local= names another directory of the nodes",
             facts.slurm_conf.path.substr(0, facts.slurm_conf.path.rfind('/') + 1) + "job_container.conf",
             "Dirs= without the directory of local=")};
  return {ok(fmt::format("TmpFS is {}; jobs share it with others of their node", tmp.empty() ? "/tmp" : tmp))};
}

}  // namespace dl::ctl::doctor
