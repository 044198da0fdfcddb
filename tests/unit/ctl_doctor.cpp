// SPDX-License-Identifier: Apache-2.0
// dlctl doctor's checks of daemons, plugins, nodes and users: for each finding a site that is as it should be, and one
// that is not. Those of dl.toml and of preemption are in ctl_doctor_site.cpp.
#include "tests/unit/ctl_doctor.h"

#include <gtest/gtest.h>

namespace dl::ctl::doctor {
namespace {

TEST(Doctor, a_good_site_has_nothing_wrong_and_nothing_to_note) {
  for (const Answer& answer : examine(good_site(), {}))
    EXPECT_EQ(answer.finding.grade, Grade::kOk) << answer.check << ": " << answer.finding.text;
}

TEST(Doctor, each_check_says_something_and_a_user_is_not_told_what_admins_change) {
  const auto all = examine(good_site(), {});
  for (const Check& check : checks()) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Answer& a) { return a.check == check.name; }))
        << check.name;
    EXPECT_STRNE(check.summary, "");
  }
  Facts user = good_site();
  user.admin = false;
  for (const Answer& answer : examine(user, {}))
    for (const Check& check : checks())
      EXPECT_TRUE(answer.check != check.name || check.who == Who::kEverybody) << answer.check;
  EXPECT_EQ(examine(user, {"plugstack"})[0].finding.text, "is for administrators: root and SlurmUser are told");
  EXPECT_EQ(examine(good_site(), {"clock"}).size(), 1U);
}

TEST(Doctor, what_cannot_be_looked_at_is_said_once) {
  Facts facts = good_site();
  facts.answers = false;
  facts.slurm_fault = "scontrol show: Unable to contact slurm controller (connect failure)";
  facts.munge_fault = "";
  EXPECT_EQ(wrongs(facts, "slurmctld"), 1);
  EXPECT_EQ(text_of(facts, "clock"), "not looked at, since slurmctld does not answer");
  EXPECT_EQ(wrongs(facts, "plugins"), 0);  // the files are here, whether it answers or not
  EXPECT_EQ(text_of(facts, "munge"), "munge makes and reads credentials on this host");
  facts.munge_fault = "munge: Error: Failed to access socket";
  EXPECT_EQ(wrongs(facts, "munge"), 1);
  facts.munge_fault.reset();
  EXPECT_EQ(wrongs(facts, "munge"), 0);
}

TEST(Doctor, what_others_write_is_escaped_in_the_text_and_whole_in_json) {
  std::vector<Answer> answers = {{"flags", wrong("bad \x1b[31m", "/etc/x\n", "a=b")}, {"clock", ok("fine")}};
  EXPECT_EQ(answers_text(answers), "wrong  flags: bad \\x1b[31m\n       /etc/x\\x0a: a=b\nok     clock: fine\n");
  const Json json = Json::parse(answers_json(answers));
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[0].at("file").get<std::string>(), "/etc/x\n");
  EXPECT_TRUE(json[1].at("line").is_null());
  EXPECT_EQ(count_wrong(answers), 1);
}

TEST(Doctor, the_clock_may_differ_by_two_seconds) {
  Facts facts = good_site();
  facts.now_s = facts.slurm_s + 2;
  EXPECT_EQ(grade_of(facts, "clock"), Grade::kOk);
  facts.now_s = facts.slurm_s - 5;
  EXPECT_EQ(grade_of(facts, "clock"), Grade::kNote);
  facts.now_s = facts.slurm_s + 31;
  EXPECT_EQ(grade_of(facts, "clock"), Grade::kWrong);
  EXPECT_NE(text_of(facts, "clock").find("31 s ahead of slurmctld's"), std::string::npos);
  facts.slurm_s = 0;
  EXPECT_EQ(grade_of(facts, "clock"), Grade::kNote);
}

TEST(Doctor, other_versions_are_named_with_their_nodes) {
  Facts facts = good_site();
  set(&facts.nodes, "Version=22.05.8", "Version=23.02.1");
  EXPECT_NE(text_of(facts, "versions").find("slurmd is 23.02.1 on n1, slurmctld is 22.05.8"), std::string::npos);
  facts = good_site();
  facts.tools = slurm_cli::Version{23, 2, 1};
  EXPECT_EQ(grade_of(facts, "versions"), Grade::kNote);
  facts = good_site();
  facts.module_fault = "Slurm 22.05 runs here, and this slurm-dl has no module";
  EXPECT_EQ(wrongs(facts, "versions"), 1);
}

TEST(Doctor, plugins_have_to_be_there_ours_alone_and_of_this_slurm) {
  Facts facts = good_site();
  facts.spank[0].signs->slurm = {22, 5, 2};  // another micro version is good for SPANK
  EXPECT_EQ(wrongs(facts, "plugins"), 0);
  facts.spank[0].signs->slurm = {21, 8, 8};
  EXPECT_NE(text_of(facts, "plugins").find("is built for Slurm 21.08.8, and Slurm 22.05.8 runs here; allowed: 22.05.*"),
            std::string::npos);
  EXPECT_NE(text_of(facts, "plugstack").find("Slurm drains its node"), std::string::npos);
  facts.plugstack.lines[0].required = false;
  EXPECT_NE(text_of(facts, "plugstack").find("with 'optional' Slurm leaves it out"), std::string::npos);
  facts = good_site();
  facts.job_submit.signs->slurm = {22, 5, 7};
  EXPECT_NE(text_of(facts, "plugins").find("allowed: 22.05.8: slurmctld does not start with it"), std::string::npos);
  facts = good_site();
  facts.job_submit.file.others_write = true;
  EXPECT_EQ(wrongs(facts, "plugins"), 1);
  facts = good_site();
  facts.job_submit.signs.reset();
  facts.job_submit.file.fault = "it is no plugin of Slurm's";
  EXPECT_EQ(wrongs(facts, "plugins"), 1);
  facts = good_site();
  facts.spank[0].signs->release = "0.0.9";
  EXPECT_EQ(grade_of(facts, "plugins"), Grade::kNote);
  facts = good_site();
  facts.job_submit = {};
  EXPECT_EQ(wrongs(facts, "plugins"), 1);
  facts.on_controller = false;
  EXPECT_EQ(grade_of(facts, "plugins"), Grade::kNote);
  facts.spank.clear();
  facts.plugstack.lines.clear();
  EXPECT_EQ(wrongs(facts, "plugins"), 1);
}

// What make install puts there: two files for every Slurm, and a part of the second for one release.
Facts site_of_any_slurm() {
  Facts facts = good_site();
  facts.spank[0].signs->any_slurm = facts.job_submit.signs->any_slurm = true;
  facts.parts = {
      {"/usr/lib/slurm/slurm-dl/22.05/job_submit.so", PluginSigns{"job_submit/dl", {22, 5, 8}, "0.1.0"}, ""}};
  return facts;
}

TEST(Doctor, an_upgrade_of_slurm_needs_the_part_for_it_and_no_other_plugin) {
  Facts facts = site_of_any_slurm();
  EXPECT_NE(text_of(facts, "plugins").find("are built for every Slurm, the latter with parts for Slurm 22.05"),
            std::string::npos);
  set(&facts.config, "22.05.8", "22.05.2");  // a micro release needs nothing
  EXPECT_EQ(wrongs(facts, "plugins"), 0);
  facts.planned = slurm_cli::Version{24, 11, 0};
  ASSERT_EQ(wrongs(facts, "plugins"), 1);
  EXPECT_EQ(first(facts, "plugins").place, "/usr/lib/slurm/slurm-dl/24.11/job_submit.so");
  EXPECT_NE(text_of(facts, "plugins").find("is not there: slurmctld of Slurm 24.11 starts, and refuses every new job"),
            std::string::npos);
  EXPECT_EQ(wrongs(facts, "plugstack"), 0);  // spank_dl.so is for every Slurm, and drains no node
  facts.on_controller = false;
  EXPECT_EQ(wrongs(facts, "plugins"), 1);
  facts.planned.reset();
  EXPECT_EQ(wrongs(facts, "plugins"), 0);
}

TEST(Doctor, a_part_of_another_slurm_and_a_file_that_is_none_are_no_parts) {
  Facts facts = site_of_any_slurm();
  facts.parts[0].signs->slurm = {24, 11, 5};  // in the folder of 22.05
  EXPECT_NE(text_of(facts, "plugins").find("is built for Slurm 24.11"), std::string::npos);
  facts.parts[0].signs.reset();
  facts.parts[0].fault = "it is no plugin of Slurm's";
  EXPECT_NE(text_of(facts, "plugins").find("it is no plugin of Slurm's: slurmctld"), std::string::npos);
  facts.parts.clear();
  EXPECT_NE(text_of(facts, "plugins").find("the folders beside it are for no Slurm"), std::string::npos);
}

TEST(Doctor, plugstack_has_one_good_line) {
  Facts facts = good_site();
  facts.plugstack.lines[0].required = false;
  EXPECT_EQ(grade_of(facts, "plugstack"), Grade::kNote);
  EXPECT_EQ(first(facts, "plugstack").place, "/etc/slurm/plugstack.conf:3");
  EXPECT_EQ(first(facts, "plugstack").line, "required /usr/lib/slurm/spank_dl.so");
  facts = good_site();
  facts.spank[0].file.there = false;
  EXPECT_NE(text_of(facts, "plugstack").find("is not on this host: with 'required' sbatch and srun fail"),
            std::string::npos);
  facts = good_site();
  facts.plugstack.lines[0].more = true;
  EXPECT_EQ(wrongs(facts, "plugstack"), 1);
  facts = good_site();
  facts.plugstack.lines[0].config = "/opt/dl.toml";
  EXPECT_EQ(grade_of(facts, "plugstack"), Grade::kNote);
  facts = good_site();
  facts.plugstack.lines.push_back(facts.plugstack.lines[0]);
  facts.spank.push_back(facts.spank[0]);
  EXPECT_EQ(wrongs(facts, "plugstack"), 1);
  facts = good_site();
  facts.plugstack.faults = {"/etc/slurm/plugstack.conf:2: 'requird x' is no line of plugstack.conf"};
  EXPECT_EQ(first(facts, "plugstack").place, "/etc/slurm/plugstack.conf:2");
  facts = good_site();
  facts.plugstack.lines.clear();
  facts.spank_installed = facts.spank[0];
  facts.spank.clear();
  EXPECT_EQ(first(facts, "plugstack").line, "required /usr/lib/slurm/spank_dl.so");
  EXPECT_EQ(first(facts, "plugstack").place, "/etc/slurm/plugstack.conf");
}

TEST(Doctor, slurmctld_has_to_load_job_submit_dl) {
  Facts facts = good_site();
  set(&facts.config, "JobSubmitPlugins = dl", "JobSubmitPlugins = lua,dl");
  EXPECT_EQ(grade_of(facts, "job_submit"), Grade::kOk);
  set(&facts.config, "JobSubmitPlugins = lua,dl", "JobSubmitPlugins = lua");
  EXPECT_EQ(first(facts, "job_submit").line, "JobSubmitPlugins=lua,dl   (then restart slurmctld)");
  EXPECT_EQ(first(facts, "job_submit").place, "/etc/slurm/slurm.conf:2");
  set(&facts.config, "JobSubmitPlugins = lua", "JobSubmitPlugins = (null)");
  EXPECT_EQ(first(facts, "job_submit").line, "JobSubmitPlugins=dl   (then restart slurmctld)");
}

TEST(Doctor, gpus_need_their_type_and_cons_tres) {
  Facts facts = good_site();
  set(&facts.config, "GresTypes = gpu", "GresTypes = (null)");
  EXPECT_EQ(first(facts, "gpus").line, "GresTypes=gpu");
  facts = good_site();
  set(&facts.config, "select/cons_tres", "select/linear");
  EXPECT_EQ(wrongs(facts, "gpus"), 1);
  facts = good_site();
  set(&facts.config, "CR_CORE_MEMORY", "CR_CORE");
  EXPECT_EQ(grade_of(facts, "gpus"), Grade::kNote);
  facts = good_site();
  facts.cluster.most_gpus = 0;
  EXPECT_EQ(grade_of(facts, "gpus"), Grade::kNote);
}

TEST(Doctor, cgroups_keep_jobs_to_their_gpus) {
  Facts facts = good_site();
  set(&facts.config, "ConstrainDevices = yes", "ConstrainDevices = no");
  EXPECT_EQ(first(facts, "cgroups").place, "/etc/slurm/cgroup.conf");
  set(&facts.config, "task/cgroup", "task/none");
  EXPECT_EQ(first(facts, "cgroups").line, "TaskPlugin=task/cgroup,task/affinity");
  facts = good_site();
  set(&facts.config, "proctrack/cgroup", "proctrack/linuxproc");
  EXPECT_EQ(grade_of(facts, "cgroups"), Grade::kNote);
}

TEST(Doctor, mpi_and_local_directories) {
  Facts facts = good_site("[launcher]\npmix = \"slurm\"\n");
  EXPECT_EQ(first(facts, "pmix").place, "/etc/slurm/dl.toml:1");
  facts.mpi = {"none", "pmix_v4"};
  EXPECT_EQ(text_of(facts, "pmix"), "srun --mpi has pmix_v4");
  set(&facts.config, "job_container/none", "job_container/tmpfs");
  EXPECT_EQ(grade_of(facts, "tmp"), Grade::kNote);
}

TEST(Doctor, what_a_user_meets) {
  Facts facts = good_site();
  facts.admin = false;
  facts.flags = false;
  EXPECT_EQ(wrongs(facts, "flags"), 1);
  facts.flags.reset();
  facts.flags_fault = "sbatch: No such file or directory";
  EXPECT_EQ(grade_of(facts, "flags"), Grade::kNote);
  facts.python_fault = "ModuleNotFoundError: No module named 'numpy'";
  EXPECT_EQ(wrongs(facts, "python"), 1);
  facts.python.clear();
  EXPECT_EQ(grade_of(facts, "python"), Grade::kNote);
  facts.missing_programs = {"dl-agent"};
  EXPECT_EQ(wrongs(facts, "programs"), 1);
  facts.missing_programs.clear();
  facts.in_path = false;
  EXPECT_EQ(grade_of(facts, "programs"), Grade::kNote);
  facts.folders[0].shared = false;
  EXPECT_EQ(grade_of(facts, "folders"), Grade::kNote);
  facts.folders[0].writable = false;
  EXPECT_EQ(wrongs(facts, "folders"), 1);
}

TEST(Doctor, times_and_lines_are_read) {
  EXPECT_EQ(slurm_seconds("30 sec"), 30);
  EXPECT_EQ(slurm_seconds("5 min"), 300);
  EXPECT_EQ(slurm_seconds("UNLIMITED"), -1);
  EXPECT_EQ(slurm_seconds("00:02:00"), 120);
  EXPECT_EQ(slurm_seconds("20"), 20);
  EXPECT_FALSE(slurm_seconds(""));
  EXPECT_FALSE(slurm_seconds("5 years"));
  EXPECT_EQ(version_text({22, 5, 8}), "22.05.8");
  const Facts facts = good_site();
  EXPECT_EQ(slurm_conf_place(facts, "partitionname=borrow"), "/etc/slurm/slurm.conf:4");
  EXPECT_EQ(slurm_conf_place(facts, "PartitionName=bor"), "/etc/slurm/slurm.conf");
  EXPECT_EQ(slurm_conf_place(facts, "KillWait"), "/etc/slurm/slurm.conf");
}

}  // namespace
}  // namespace dl::ctl::doctor
