#!/usr/bin/env bats
# dlpolicyd end to end with slurmdbd: see reclaim.bats.
# shellcheck disable=SC2154,SC2119,SC2030,SC2031  # variables of the helpers; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/reclaim.bash
source "$(dirname "$BATS_TEST_FILENAME")/reclaim.bash"

setup_file() { reclaim_up --slurmdbd; }
teardown_file() { cluster_down; }
setup() { reclaim_setup; }
teardown() { reclaim_teardown; }

@test "idle GPUs are lent, taken back for a claim within seconds, and the victim goes on where it was" { lend_and_take_back; }

@test "a borrowed job becomes its tenant's own when quota is free, without a restart, and is no victim any more" { become_own; }

@test "without slurmdbd for a while, GPUs are lent and taken back all the same" {
  dl_sandbox daemon stop slurmdbd
  lend_and_take_back
  dl_sandbox daemon start slurmdbd 3>&-
}
