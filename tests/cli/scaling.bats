#!/usr/bin/env bats
# How a job scales, without Slurm: dlrun measures its train steps, a run of the same name begins with what earlier ones beside it have
# shown, and dlctl tells it.
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup() {
  dlrun_setup
  [[ -x $learner ]] || skip "built without HDF5"
  dlctl=$top_builddir/launcher/ctl/dlctl
}

# trained LEARNERS: a training of 110 train steps of 60 ms.
trained() {
  "$dlrun" -f generic -n "$1" --batch 8:32:2 --checkpoint "$PWD/ck-$1" --job-dir "$PWD/dl-$1" -- "$learner" 110 60 >"out-$1.txt" 2>&1 ||
    { cat "out-$1.txt" >&2; return 1; }
}

@test "train steps are measured at the size that ran, and the next run of the name knows them" {
  trained 1
  run jq -c '[.version, (.measured | length), .now.learners, .now.batch, .batch, (.measured[0].step_s | . >= 0.059 and . < 0.5)]' dl-1/scaling.json
  [ "$output" = '[1,1,1,8,"8:32:2",true]' ]
  trained 2
  run jq -c '[.now.learners, .now.nodes, .now.batch, ([.measured[].learners] | sort)]' dl-2/scaling.json
  [ "$output" = '[2,1,8,[1,2]]' ]
  run "$dlctl" scaling dl-2
  [ "$status" -eq 0 ]
  contains "$output" '^ +1 +1 +8 +.* measured$'
  contains "$output" '^> +2 +1 +8 +.* measured$'
}
