#!/usr/bin/env bats
# README.md's dl.toml as it is printed, with QOS, on a cluster with slurmdbd; and what is said of it on the way there. With partitions, without
# slurmdbd: readme.bats.
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/lib/readme.bash
source "$top_srcdir/tests/lib/readme.bash"

setup_file() {
  local toml=$BATS_FILE_TMPDIR/dl.toml
  readme_blocks toml >"$toml"
  printf '[frameworks]\ncatalogue = ["%s"]\n' "$(readlink -f "$stage/share/slurm-dl/frameworks.d")" >>"$toml"
  cluster_up --nodes 2 --gpus-per-node 4 --slurmdbd --dl-toml "$toml"
}
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() { cluster_teardown; }

@test "a QOS that Slurm does not have, and licences, are missed before a job is" {
  run on_login dlctl config check
  assert_contains "$output" "\[tiers.borrow\]: Slurm has no QOS 'preemptable'; it has .*normal"
  [[ $output != *'[tiers.guaranteed]'* ]]
  assert_contains "$output" '\[tenants\]: Slurm does not have the licences .*dlctl quota sync'
  run on_login dlctl doctor --only tiers
  [ "$status" -eq 1 ]
  assert_contains "$output" "^wrong  tiers: .*QOS 'preemptable'"
}

@test "with the QOS and the Include line of README.md each tier's jobs get the QOS that its dl.toml names" {
  local include borrowed own
  on_login sacctmgr -i -Q add qos preemptable PreemptMode=requeue GraceTime=60
  on_login sacctmgr -i -Q modify qos normal set Preempt=preemptable
  on_login sacctmgr -i -Q modify account root set QOS+=preemptable
  # shellcheck disable=SC2016  # backticks of Markdown
  include=$(sed -nE 's/.*`(Include [a-z.-]+)`.*/\1/p' "$readme")
  [ -n "$include" ]
  echo "$include" >>"$DL_SANDBOX_DIR/etc/slurm.conf"
  grep -q 'an empty .dl-licenses.conf.' "$readme" && : >"$DL_SANDBOX_DIR/etc/dl-licenses.conf"
  run on_login dlctl quota sync --yes
  echo "$output"
  [ "$status" -eq 0 ]
  run on_login dlctl config check
  echo "$output"
  [ "$status" -eq 0 ]
  [[ $output != *'[tiers'* && $output != *'[tenants'* ]]
  borrowed=$(submit --account=vision --dl-learners=1 --dl-gpus=1 --dl-tier=borrow --dl-checkpoint=ck --wrap true)
  own=$(submit --account=vision --dl-learners=1 --dl-gpus=1 --dl-tier=guaranteed --wrap true)
  [ "$(job_field "$borrowed" QOS)" = preemptable ]
  [ "$(job_field "$own" QOS)" = normal ]
  wait_completed "$own" 60
}
