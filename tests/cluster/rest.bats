#!/usr/bin/env bats
# Jobs submitted and changed through slurmrestd, which speaks to slurmctld without sbatch and without SPANK: quotas hold there too.
# shellcheck disable=SC2016,SC2030,SC2031,SC2119  # some is expanded by the shells of jobs; $job is each test's own
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/quota.bash
source "$(dirname "$BATS_TEST_FILENAME")/quota.bash"

setup_file() {
  local program
  for program in slurmrestd curl; do command -v "$program" >/dev/null || export DL_NO_REST="needs $program"; done
  [[ -n ${DL_NO_REST:-} ]] || quota_up
}
teardown_file() { cluster_down; }
setup() {
  [[ -z ${DL_NO_REST:-} ]] || skip "$DL_NO_REST"
  cluster_setup
  start_rest
}
teardown() {
  [[ ! -e rest.pid ]] || kill "$(cat rest.pid)" || true
  cluster_teardown
}

# rest_api: the oldest form of the API that this slurmrestd speaks. Up to 23.02 a plugin was a form; later ones have one plugin, openapi/slurmctld,
# and a parser of data for each form.
rest_api() {
  local parser
  parser=$(find /usr/lib -name 'data_parser_v0_0_*.so' 2>/dev/null | sed -E 's/.*data_parser_(v[0-9]+)_([0-9]+)_([0-9]+)\.so/\1.\2.\3/' | sort -V | head -n 1)
  echo "${parser:-v0.0.38}"
}
# slurmrestd refuses to be root: it speaks as the user who started it. Without slurmdbd it can only serve slurmctld.
start_rest() {
  api=$(rest_api)
  local serves=(-s openapi/v0.0.38)
  [[ $api == v0.0.38 ]] || serves=(-s openapi/slurmctld -d "data_parser/$api")
  as_user "$(some_user)" bash -c 'echo $$ >rest.pid; exec slurmrestd -a rest_auth/local "$@"' - "${serves[@]}" "unix:$PWD/rest.sock" >rest.log 2>&1 &
  wait_for 10 "slurmrestd listens" test -S rest.sock || { cat rest.log >&2; return 1; }
}
# in_form JSON: the requests of these tests are in the form of v0.0.38; the later ones name GPUs and environments otherwise.
in_form() {
  [[ $api != v0.0.38 ]] || { echo "$1"; return; }
  jq -c 'def gpus: sub("^gres:"; "") | sub("^gpu:"; "") | "gres/gpu:" + .;
    def later: with_entries(
      if .key == "gpus" then {key: "tres_per_job", value: (.value | gpus)}
      elif .key == "gpus_per_node" or .key == "gres" then {key: "tres_per_node", value: (.value | gpus)}
      elif .key == "gpus_per_task" then {key: "tres_per_task", value: (.value | gpus)}
      elif .key == "nodes" then .value |= tostring
      elif .key == "exclusive" then {key: "shared", value: ["none"]}
      elif .key == "environment" then .value |= (to_entries | map(.key + "=" + .value))
      else . end);
    if .jobs then .jobs |= map(later) elif .job then .job |= later else later end' <<<"$1"
}
# rest PATH JSON: the answer is in $answer.
rest() {
  answer=$(as_user "$(some_user)" curl -sS --max-time 20 --unix-socket rest.sock -H 'Content-Type: application/json' -d "$(in_form "$2")" "http://localhost/slurm/$api/$1")
}
# rest_submit MEMBERS: of the job; sets $job, empty if it was refused.
rest_submit() {
  rest job/submit '{"script":"#!/bin/sh\nsleep 60\n","job":{"environment":{"PATH":"/usr/bin:/bin"},"current_working_directory":"/tmp",
    "standard_output":"/dev/null",'"$1"'}}'
  job=$(jq -r '.job_id // empty' <<<"$answer")
}
jobs_in_queue() { on_login squeue -h -o %i | wc -l; }

@test "what is refused to sbatch for its quota is refused through REST" {
  while IFS='|' read -r members error; do
    rest_submit "$members"
    [ -z "$job" ] || { echo "taken: $members"; false; }
    assert_contains "$(jq -c .errors <<<"$answer")" "$error"
  done <<'END'
"gpus":"1"|Access.{1,3}permission denied
"account":"physics","gpus":"1"|Access.{1,3}permission denied
"account":"vision","gpus":"7"|Job violates accounting
"account":"nlp","gpus":"6"|Job violates accounting
"account":"nlp","gpus_per_node":"a100:2","nodes":3|Job violates accounting
"account":"vision","gres":"gres:gpu:h100:1"|Job violates accounting
"account":"nlp","tasks":6,"gpus_per_task":"1"|Job violates accounting
"account":"nlp","exclusive":"exclusive","nodes":3|Job violates accounting
"account":"vision","gpus":"2","licenses":"dl_nlp:1"|Access.{1,3}permission denied
"licenses":"dl_vision/a100:1"|Access.{1,3}permission denied
"account":"vision","gpus":"1","admin_comment":"dl:1 tenant=nlp"|Unknown key|Access.{1,3}permission denied
END
  [ "$(jobs_in_queue)" = 0 ]
  # slurmrestd 22.05 gives Slurm's words alone; ours are in slurmctld's log.
  grep -q "dl: refused: GPUs belong to tenants, and this job has no account" "$DL_SANDBOX_DIR/log/slurmctld.log"
  grep -q "dl: refused: 7 GPUs .*exceed what one job of tenant 'vision' may have, 6 GPUs" "$DL_SANDBOX_DIR/log/slurmctld.log"
  # Of two components.
  rest job/submit '{"script":"#!/bin/sh\n","jobs":[{"account":"nlp","gpus":"1","environment":{"A":"1"}},{"account":"nlp","gpus":"1","environment":{"A":"1"}}]}'
  assert_contains "$(jq -c .errors <<<"$answer")" 'not supported'
  [ "$(jobs_in_queue)" = 0 ]
}

@test "what is taken through REST is labelled and charged as by sbatch, whatever its environment says" {
  rest_submit '"account":"vision","gpus":"2"'
  wait_state "$job" RUNNING 20
  [ "$(job_field "$job" Licenses)" = dl_vision/a100:2 ]
  assert_contains "$(job_field "$job" AdminComment)" '^dl:1 tenant=vision tier=auto learners=2 gpus=1 .*charge=own'
  [ "$(used dl_vision/a100)" = 2 ]
  rest_submit '"account":"vision","gpus":"3"'
  wait_for 20 "slurmctld keeps the quota" has_reason "$job" Licenses
  rest_submit '"account":"ViSion","gpus_per_task":"1","tasks":3'
  [ "$(job_field "$job" Licenses)" = dl_vision/a100:3 ]
  assert_contains "$(job_field "$job" AdminComment)" '^dl:1 tenant=vision '
  rest_submit '"account":"nlp","gpus":"1","array":"1-2"'
  [ "$(job_field "${job}_2" Licenses)" = dl_nlp:1 ]
  # 22.05 hands no options of SPANK on: in the job's environment they are words.
  rest job/submit '{"script":"#!/bin/sh\nsleep 60\n","job":{"account":"nlp","gpus":"1","current_working_directory":"/tmp","standard_output":"/dev/null",
    "environment":{"_SLURM_SPANK_OPTION_dl_dl_gpus":"0","SPANK_DL_TENANT":"vision","DL_GPUS":"0","DL_TIER":"borrow"}}}'
  job=$(jq -r .job_id <<<"$answer")
  [ "$(job_field "$job" Licenses)" = dl_nlp:1 ]
}

@test "a job's owner cannot change through REST what it is charged" {
  rest_submit '"account":"vision","gpus":"2","hold":true'
  while read -r change; do
    rest "job/$job" "{$change}"
    jq -e '.errors | length > 0' <<<"$answer" || { echo "taken: $change"; false; }
  done <<'END'
"licenses":""
"licenses":"dl_vision/a100:1"
"account":"nlp"
"nodes":2
"tasks":4
"gpus":"4"
"gres":"gpu:4"
"gpus_per_node":"4"
"exclusive":"exclusive"
"partition":"borrow"
"qos":"other"
"admin_comment":"dl:1 tenant=nlp"
END
  [ "$(job_field "$job" Licenses)" = dl_vision/a100:2 ]
  rest "job/$job" '{"comment":"mine"}'
  jq -e '.errors == []' <<<"$answer"
  [ "$(on_login squeue -h -j "$job" -o %k)" = mine ]
  rest "job/$job" '{"hold":false}'
  wait_state "$job" RUNNING 20
  rest "job/$job" '{"licenses":""}'
  [ "$(used dl_vision/a100)" = 2 ]
}
