#!/usr/bin/env bats
# What a job uses is told while it runs, in its record, and as series. A double of NVIDIA's management library (tests/lib/nvml_double.c) says
# how much its GPUs are used. Without Slurm.
# shellcheck disable=SC2016  # the scripts of learners expand there
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup_file() { nvml_double_build; }
setup() {
  dlrun_setup
  printf '[idle]\nafter = "20s"\n' >>dl.toml
  nvml_double_setup
  dlctl=$top_builddir/launcher/ctl/dlctl
}
# told PATTERN: until `dlctl status` of the job says so of its use, 60 s at most.
told() {
  for _ in $(seq 300); do
    "$dlctl" status job >shown 2>/dev/null || true
    ! grep -qE -- "^use +$1" shown || return 0
    sleep 0.2
  done
  cat shown said >&2
  return 1
}

@test "what GPUs, CPUs and memory are used is in dlctl status while the job runs, and afterwards, with numbers, in its record" {
  echo 90 10 >uses
  "$dlrun" --job-dir job -n 2 -g 1 -- sh -c 'until [ -e over ]; do sleep 0.1; done' >said 2>&1 3>&- &
  told 'used [0-9]+ % of 2 GPUs, .*CPUs?, [0-9]+ [KM]iB$'
  touch over
  wait
  contains "$("$dlctl" status job)" '^use +used [0-9]+ % of 2 GPUs, '
  jq -s '[.[] | select(.use and .learner == null)]' job/events.jsonl >used
  [ "$(jq length used)" = 1 ]
  [ "$(jq -r '.[0].state' used)" = COMPLETED ]
  jq -e '.[0].use | .gpus == 2 and .gpus_measured == 2 and .gpu_share > 0.4 and .gpu_share < 0.6 and .gpu_joules == null' used
  jq -e '.[0].use | .memory_bytes > 100000 and .memory_bytes < 1e9 and .training_s > 0 and .saving_s == 0' used
  "$dlctl" status --json job >json
  jq -e '.[0].use | (.text | startswith("used")) and .gpus == 2' json
}

@test "what cannot be measured is said, and is not 0" {
  echo 90 x >uses
  "$dlrun" --job-dir job -n 2 -g 1 -- sh -c 'until [ -e over ]; do sleep 0.1; done' >said 2>&1 3>&- &
  told 'used 90 % of 1 GPU, .*; not measured: 1 other GPU$'
  touch over
  wait
  rm over
  CUDA_VISIBLE_DEVICES=0 LD_LIBRARY_PATH='' "$dlrun" --job-dir none -g 1 -- true >said 2>&1
  contains "$(jq -r 'select(.use and .learner == null) | .use.text' none/events.jsonl)" 'not measured: 1 GPU( |$)'
  jq -e 'select(.use and .learner == null) | .use | .gpu_share == null and .gpus_measured == 0 and .gpus == 1' none/events.jsonl
}

@test "a driver that hangs holds up nothing, and a GPU that is lost is not measured any more" {
  echo h >uses
  "$dlrun" --job-dir hangs -g 1 -- true >said 2>&1
  contains "$(jq -r 'select(.use and .learner == null) | .use.text' hangs/events.jsonl)" 'not measured: 1 GPU( |$)'
  echo 80 >uses
  "$dlrun" --job-dir job -g 1 -- sh -c 'echo $PPID >agent; until [ -e over ]; do sleep 0.1; done' >said 2>&1 3>&- &
  told 'used 80 % of 1 GPU, '
  pgrep -x -P "$(cat agent)" dl-agent # the process that asks the driver
  echo x >uses
  for _ in $(seq 600); do
    pgrep -x -P "$(cat agent)" dl-agent >/dev/null || break
    sleep 0.1
  done
  [ -z "$(pgrep -x -P "$(cat agent)" dl-agent)" ]
  touch over
  wait
  jq -es 'map(select(.use and .learner == null)) | .[0].use | (.gpu_share - 0.8 | fabs) < 0.01 and .gpus_measured == 1' job/events.jsonl
}

@test "while a job is suspended its GPUs are others': what they use then does not count as its own" {
  echo 80e >uses # 320 W
  began=$(date +%s)
  "$dlrun" --job-dir job -g 1 -- sh -c 'echo $PPID >agent; until [ -e over ]; do sleep 0.1; done' >said 2>&1 3>&- &
  told 'used 80 % of 1 GPU, '
  before=$(date +%s)
  mapfile -t stopped < <(pgrep -x -P "$(cat agent)" dl-agent)
  kill -STOP "${stopped[@]}" "$(cat agent)"
  sleep 12 # for so long another job uses the GPU
  kill -CONT "$(cat agent)" "${stopped[@]}"
  touch over
  wait
  # It had 320 J a second until it was suspended, and for as long as it took to end.
  most=$((320 * ($(date +%s) - began - 10)))
  jq -es --argjson most "$most" --argjson least $((320 * (before - began) / 8)) \
    'map(select(.use and .learner == null)) | .[0].use.gpu_joules | . > $least and . < $most' job/events.jsonl
}

@test "of each learner it is told what it uses, also of how many SMs its GPU was busy, while it runs and afterwards" {
  echo 90/45 20 >uses
  "$dlrun" --job-dir job -n 2 -g 1 -- sh -c 'until [ -e over ]; do sleep 0.1; done' >said 2>&1 3>&- &
  told 'used 55 % of 2 GPUs, '
  "$dlctl" status --learners job >shown
  contains "$(cat shown)" '^LEARNER +GPU +SMS +GPU-MEMORY +CPUS +MEMORY +READ +WRITTEN$'
  contains "$(cat shown)" '^0 +90 % +45 % +900 MiB +[0-9.e-]+ +[0-9.]+ [KM]iB '
  contains "$(cat shown)" '^1 +20 % +not measured +200 MiB +[0-9.e-]+ +[0-9.]+ [KM]iB '
  "$dlctl" status job >plain
  run ! grep -q GPU-MEMORY plain
  touch over
  wait
  "$dlctl" status --json job >json
  jq -e '.[0].ranks | map(.use) | (.[0].gpu_share - 0.9 | fabs) < 0.01 and (.[0].gpu_sm_share - 0.45 | fabs) < 0.01' json
  jq -e '.[0].ranks | map(.use) | (.[1].gpu_share - 0.2 | fabs) < 0.01 and .[1].gpu_sm_share == null and .[1].memory_bytes > 50000' json
  jq -es '[.[] | select(.learner == 1 and .use)] | length == 1 and (.[0].use.text == null)' job/events.jsonl
  "$dlctl" report job -o page.html >/dev/null
  contains "$(cat page.html)" '<h3>What each learner used</h3>'
  contains "$(cat page.html)" '<td class="n">45 %</td>'
}

@test "a run of some seconds is told of at its end, and has series" {
  echo 60/30 >uses
  "$dlrun" --job-dir job -g 1 -- sh -c 'until [ -e over ]; do sleep 0.1; done' >said 2>&1 3>&- &
  wait_grep gpu_used_percent job/metrics/attempt-1/use.series
  touch over
  wait
  contains "$(cat said)" '^dlrun: used [0-9]+ % of 1 GPU, [^;]*$'
  run "$dlctl" metrics job --group use
  contains "$output" '^gpu_used_percent +use +[0-9]+ +- +(59\.9|60)' # of whole milliseconds
  contains "$output" '^gpu_sm_percent +use +[0-9]+ +- +(29\.9|30)'
  contains "$output" '^gpu_watts +use +[0-9]+ +- +240 '
  contains "$output" '^cpus_used +use '
  contains "$output" '^memory_bytes +use '
}

# A computing node's cores should rarely be taken from learners. dlrun woke 24 times a second for one learner, and an agent 11 times.
@test "dlrun and an agent sleep while a learner trains: they wake twelve times a second at most, each" {
  "$dlrun" -q --job-dir job -- sleep 60 >out 2>&1 3>&- &
  wait_grep '"PROCESSING"' job/events.jsonl
  local pid process woken=()
  pid=$(jq -r .pid job/control.json)
  wakes() { awk '/^voluntary/ { sum += $2 } END { print sum }' "/proc/$1/task/"*/status; }
  sleep 1 # for what belongs to the start
  for process in "$pid" "$(pgrep -P "$pid" -f dl-agent)"; do woken+=("$(wakes "$process")"); done
  sleep 5 # in which it is counted
  for process in "$pid" "$(pgrep -P "$pid" -f dl-agent)"; do
    echo "$process woke $(($(wakes "$process") - woken[0])) times within 5 s"
    [ $(($(wakes "$process") - woken[0])) -le 60 ]
    woken=("${woken[@]:1}")
  done
  kill -TERM "$pid"
  wait
}
