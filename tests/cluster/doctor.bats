#!/usr/bin/env bats
# dlctl doctor on a real cluster: a fresh one has nothing wrong; then one thing after another is broken, and it says which, and what to
# change. That clocks differ is shown in tests/unit/ctl_doctor.cpp alone: all hosts of a sandbox have one clock, which no test may set.
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 2 --gpus-per-node 2; }
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  [[ -e $stage/lib/slurm/spank_dl.so || -n $(find "$stage" -name spank_dl.so -print -quit) ]] || skip "the plugins are not built"
  etc=$DL_SANDBOX_DIR/etc
  rm -rf "${BATS_TEST_TMPDIR:?}/etc" && cp -r "$etc" "$BATS_TEST_TMPDIR/etc"
}
teardown() {
  [[ ! -d $BATS_TEST_TMPDIR/etc ]] || cp "$BATS_TEST_TMPDIR"/etc/* "$etc"
  cluster_teardown
}

# The python3 of the system, whatever the caller's PATH has.
doctor() { on_login env "PATH=$stage/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$stage/bin/dlctl" doctor "$@"; }
# says PATTERN OPTIONS...: doctor ends with 1, and its answer has the pattern.
says() {
  run doctor "${@:2}"
  echo "$output"
  [ "$status" -eq 1 ]
  assert_contains "$output" "$1"
}

@test "a fresh cluster has nothing wrong, as text and as JSON" {
  run doctor
  echo "$output"
  [ "$status" -eq 0 ]
  assert_contains "$output" "^ok     slurmctld: slurmctld of cluster '.*' answers: Slurm "
  for check in munge clock versions plugins plugstack job_submit dl.toml tiers preemption grace requeue licences gpus programs flags python; do
    assert_contains "$output" "^ok     $check: "
  done
  assert_contains "$output" '^ok     grace: GraceTime of partition .borrow. is 20 s'
  doctor --json | jq -e 'map(select(.grade == "wrong")) | length == 0' >/dev/null
  [ "$(doctor --json --only clock | jq -r '.[0].check')" = clock ]
  run doctor --only clocks
  [ "$status" -eq 2 ]
}

@test "a user is told of what concerns him, and nothing of what admins change" {
  run as_user "$(some_user)" env "PATH=$stage/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$stage/bin/dlctl" doctor
  echo "$output"
  assert_contains "$output" '^ok     flags: sbatch --help lists the --dl-\* flags'
  assert_contains "$output" '^ok     slurmctld: '
  [[ ! $output =~ (plugstack|preemption|cgroups|licences): ]]
  assert_contains "$(doctor --user)" '^ok     flags: '
}

@test "plugstack.conf: a word that is none, a plugin that is not there, two lines, optional, an old plugin" {
  plugin=$(sed -n 's/^required //p' "$etc/plugstack.conf")
  echo "requird $plugin" >"$etc/plugstack.conf"
  says "^wrong  plugstack: .*plugstack.conf:1: 'requird .*allowed: required\|optional" --only plugstack
  echo "required $plugin-2" >"$etc/plugstack.conf"
  says "^wrong  plugstack: no line loads spank_dl.so" --only plugstack
  echo "required /nowhere/spank_dl.so" >"$etc/plugstack.conf"
  says "^wrong  plugstack: .*which is not on this host: with 'required' sbatch and srun fail" --only plugstack
  printf 'required %s\nrequired %s\n' "$plugin" "$plugin" >"$etc/plugstack.conf"
  says "^wrong  plugstack: .*plugstack.conf:2 loads spank_dl.so a second time" --only plugstack
  echo "optional $plugin" >"$etc/plugstack.conf"
  run doctor --only plugstack
  [ "$status" -eq 0 ]
  assert_contains "$output" "^note   plugstack: 'optional'"
  assert_contains "$output" "^       .*plugstack.conf:1: required $plugin"
  # What a plugin of an older Slurm says of itself.
  echo 'const char plugin_name[] = "dl", plugin_type[] = "spank"; const unsigned plugin_version = 0x140b09;' >old.c
  cc -shared -fPIC -o spank_dl.so old.c
  echo "required $PWD/spank_dl.so" >"$etc/plugstack.conf"
  says "^wrong  plugins: .* is built for Slurm 20.11.9, and Slurm .* runs here; allowed: .*: Slurm does not load it" --only plugins --only plugstack
  assert_contains "$output" '^wrong  plugstack: .*so that Slurm drains its node'
}

@test "dl.toml: a typo, a file that others write, a partition that Slurm does not have" {
  echo '[nodse]' >>"$etc/dl.toml"
  says "^wrong  dl.toml: .*dl.toml:[0-9]+: .*nodse" --only dl.toml
  assert_contains "$output" "^       .*dl.toml:[0-9]+: dlctl config check"
  says "^note   tiers: not looked at, since dl.toml cannot be used"
  cp "$BATS_TEST_TMPDIR/etc/dl.toml" "$etc/dl.toml"
  chmod 666 "$etc/dl.toml"
  says "^wrong  dl.toml: .*can be changed by others" --only dl.toml
  chmod 644 "$etc/dl.toml"
  sed -i 's/"borrow"/"lent"/' "$etc/dl.toml"
  says "^wrong  tiers: \[tiers.borrow\]: Slurm has no partition 'lent'; it has batch, borrow" --only tiers
  assert_contains "$output" '^       .*dl.toml:[0-9]+: partition = '
  # QOS live in slurmdbd, which this cluster lacks: a job of this tier would become one of the default partition.
  sed -i 's/^partition = "lent"/qos = "lent"/' "$etc/dl.toml"
  refused() { on_login sbatch --dl-tier=borrow --wrap true >said 2>&1 && return 1 || grep -q slurmdbd said; }
  wait_for 20 'job_submit has read dl.toml anew' refused || { cat said; false; }
  assert_contains "$(cat said)" "this job's tier has the QOS 'lent' in dl.toml, which Slurm ignores without slurmdbd; allowed, by an administrator: partition = "
}

@test "tenants: licences that Slurm does not have, quotas that are too large, no dlpolicyd" {
  printf '[tenants.bio]\nquota = 3\n[tenants.nlp]\nquota = 2\n' >>"$etc/dl.toml"
  says "^wrong  licences: licence 'dl_bio': Slurm has none, the quotas of dl.toml need 3" --only licences --only quotas --only dlpolicyd
  assert_contains "$output" '^       .*/dl-licenses.conf: dlctl quota sync'
  assert_contains "$output" '^wrong  licences: .* does not include dl-licenses.conf'
  assert_contains "$output" '^wrong  quotas: the quotas of dl.toml promise 5 GPUs, and Slurm.s nodes have 4'
  assert_contains "$output" '^note   dlpolicyd: no dlpolicyd runs on this host'
}

@test "preemption: a borrow partition without a grace time, or that is never preempted" {
  on_login scontrol update PartitionName=borrow GraceTime=0
  says "^wrong  preemption: partition 'borrow' has no GraceTime" --only preemption
  assert_contains "$output" '^       .*slurm.conf:[0-9]+: PartitionName=borrow ... GraceTime=120'
  on_login scontrol update PartitionName=borrow GraceTime=20 PreemptMode=OFF
  says "^wrong  preemption: partition 'borrow' has PreemptMode OFF" --only preemption
  on_login scontrol update PartitionName=borrow PreemptMode=REQUEUE
  [ "$(doctor --only preemption --json | jq -r '.[0].grade')" = ok ]
}

@test "grace: the saves of a job that runs are measured" {
  learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  printf '#!/bin/bash\ndlrun -- %s "$@"\n' "$learner" >train.sh
  job=$(submit --dl-framework=generic --dl-learners=1 --dl-checkpoint=ck,every=1s train.sh 2000 20)
  wait_file ck/SAVES.jsonl durable_s 60
  run doctor --only grace
  echo "$output"
  [ "$status" -eq 0 ]
  assert_contains "$output" "the longest save of a job that runs takes [0-9.]+ s \(job $job\)"
}

@test "slurmctld: one that does not load job_submit_dl, and one that does not answer" {
  sed -i 's/^JobSubmitPlugins=.*/#&/' "$etc/slurm.conf"
  dl_sandbox daemon stop slurmctld
  says '^wrong  slurmctld: Slurm does not answer here: '
  assert_contains "$output" '^wrong  job_submit: JobSubmitPlugins is empty \(by slurm.conf here'
  assert_contains "$output" '^ok     plugins: '
  assert_contains "$output" '^ok     plugstack: '
  assert_contains "$output" '^note   clock: not looked at, since slurmctld does not answer'
  dl_sandbox daemon start slurmctld
  wait_controller 30
  says '^wrong  job_submit: JobSubmitPlugins is empty: ' --only job_submit
  assert_contains "$output" '^       .*slurm.conf: JobSubmitPlugins=dl '
  cp "$BATS_TEST_TMPDIR/etc/slurm.conf" "$etc/slurm.conf"
  dl_sandbox daemon stop slurmctld
  dl_sandbox daemon start slurmctld
  wait_controller 30
  [ "$(doctor --only job_submit --json | jq -r '.[0].grade')" = ok ]
}
