#!/usr/bin/env bats
# The metrics of a training, without Slurm: found in what it prints, kept as series, and shown over its attempts.
# shellcheck disable=SC2016  # the scripts of learners expand there
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

bats_require_minimum_version 1.5.0

setup() {
  dlrun_setup
  dlctl=$top_builddir/launcher/ctl/dlctl
}

# run_job DIR SCRIPT
run_job() { "$dlrun" -f generic --job-dir "$PWD/$1" -- sh -c "$2" >"out-$1.txt" 2>&1 || { cat "out-$1.txt" >&2; return 1; }; }

@test "values in usual lines are there when the training ends, also the last one without a newline" {
  run_job a 'for i in 1 2 3; do echo "step $i: loss=0.$((9 - i)) val_acc: 0.$i"; done; printf "step 4: loss=0.25"'
  run "$dlctl" metrics a
  [ "$status" -eq 0 ]
  contains "$output" '^METRIC +GROUP +POINTS +STEP +LAST +LOWEST +HIGHEST$'
  contains "$output" '^loss +train +4 +4 +0.25 +0.25 at 4 +0.8 at 1$'
  contains "$output" '^acc +validate +3 +3 +0.3 +0.1 at 1 +0.3 at 3$'
  run jq -c '.jobs[0].series[] | select(.name == "loss") | [.step, .value, .attempt]' <("$dlctl" metrics --json a)
  [ "$output" = '[[1,2,3,4],[0.8,0.7,0.6,0.25],[1,1,1,1]]' ]
  run "$dlctl" metrics --csv --name loss a
  [ "${#lines[@]}" -eq 5 ]
  contains "${lines[4]}" '^a,0,train,loss,1,4,[0-9]+,0.25,0$'
}

@test "of a training that went on from an earlier step the curve is the one that counts, and --all shows the rest" {
  # shellcheck disable=SC2016
  run_job a 'for i in 0 10 20 30; do echo "step $i: loss=0.9"; done'
  run_job a 'for i in 20 30 40; do echo "step $i: loss=0.5"; done'
  run jq -c '.jobs[0].series[0] | [.step, .attempt]' <("$dlctl" metrics --json a)
  [ "$output" = '[[0,10,20,30,40],[1,1,2,2,2]]' ]
  run jq -c '.jobs[0].series[0] | [.step, .superseded]' <("$dlctl" metrics --json --all a)
  [ "$output" = '[[0,10,20,30,20,30,40],[false,false,true,true,false,false,false]]' ]
  contains "$("$dlctl" metrics a)" '^2 points that later attempts have superseded; --all shows them, too$'
}

@test "jobs are compared, and what a hostile program prints reaches no terminal as it is" {
  run_job a 'echo "step 1: loss=0.5"'
  run_job b 'echo "step 1: loss=0.25"; printf "step 2: \033]0;x\007loss=nan\nstep 3: \377loss=inf\n"; head -c 30000000 /dev/zero | tr "\0" x'
  run "$dlctl" metrics a b
  [ "$status" -eq 0 ]
  contains "$output" '^a +loss +train +1 +1 +0.5 '
  contains "$output" '^b +loss +train +3 +3 +inf +0.25 at 1 +0.25 at 1$'
  run ! grep -q "$(printf '\033')" <<<"$output"
  run_job c 'echo "step 1: loss=-nan"'
  contains "$("$dlctl" metrics --csv c)" ',1,[0-9]+,nan,0$'
}

@test "a job without metrics says what would be recognised, and a wrong choice what there is to do" {
  run_job a 'echo hello'
  run -3 "$dlctl" metrics a
  contains "$output" '^dlctl metrics: job a has no metrics yet: lines such as "step 10: loss=0.33"'
  run -2 "$dlctl" metrics --csv --json a
  contains "$output" '^dlctl metrics: --csv and --json exclude each other; allowed: one of them$'
}

@test "a collector that is killed costs metrics alone" {
  "$dlrun" -f generic --job-dir "$PWD/a" -- sh -c 'echo "step 1: loss=0.5"; touch there; while [ ! -e go ]; do sleep 0.05; done; echo done' >out.txt 2>&1 3>&- &
  for _ in $(seq 600); do
    [ -s a/metrics/attempt-1/learner-0.series ] && break
    sleep 0.1
  done
  pkill -KILL -f "dl-metrics series=$PWD/a/"
  touch go
  wait $!
  contains "$(cat out.txt)" '^dlrun: completed'
  contains "$("$dlctl" metrics a)" '^loss +train +1 +1 +0.5 '
}

@test "a file where the metrics would go costs metrics alone, and the log says so" {
  mkdir a
  echo mine >a/metrics
  run_job a 'echo "step 1: loss=0.5"'
  contains "$(cat a/logs/attempt-1/learner-0.log)" '^dl-agent: write to .*/a/metrics/attempt-1: Not a directory: no metrics of this learner are recorded$'
  [ "$(cat a/metrics)" = mine ]
}

@test "what is wrong with a file of metrics is said also where there are no others" {
  run_job a 'echo hello'
  echo rubbish >a/metrics/attempt-1/learner-0.series
  run -3 "$dlctl" metrics a
  contains "$output" '^dlctl metrics: no metrics can be shown: metrics/attempt-1/learner-0.series: these are no series of metrics$'
}

# reports FILE: a training in Python that reports by dl.metric(), without checkpoints.
reports() {
  cat >"$1" <<'PY'
import os, sys
import dl
begin, end, loss = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
for step in range(begin, end, 10):
    dl.metric(loss=loss, step=step)
    print(f"step {step}: loss={loss:.1f} lr=0.01", flush=True)
dl.metric({"acc@1": loss / 2}, step=end - 10, group="validate")
PY
}

@test "what a Python program reports by dl.metric() is there without checkpoints, and what it prints alike is not there twice" {
  reports train.py
  "$dlrun" -f generic -n 2 --job-dir "$PWD/a" -- env PYTHONPATH="$top_srcdir/launcher/python" python3 "$PWD/train.py" 0 40 0.8125 >out.txt 2>&1 || { cat out.txt >&2; false; }
  run jq -c '.jobs[0].series[] | [.group, .name, .step, .value]' <("$dlctl" metrics --json a)
  [ "${lines[0]}" = '["train","loss",[0,10,20,30],[0.8125,0.8125,0.8125,0.8125]]' ] || { echo "$output" >&2; false; }
  [[ $output == *'["validate","acc@1",[30],[0.40625]]'* ]]
  [ "$(wc -l <a/metrics/attempt-1/learner-0.jsonl)" -eq 5 ]
  [ ! -e a/metrics/attempt-1/learner-1.jsonl ]
}

@test "reported values of a training that went on from an earlier step are replaced" {
  reports train.py
  for arguments in '0 40 0.9' '20 50 0.5'; do
    # shellcheck disable=SC2086  # three words
    "$dlrun" -f generic --job-dir "$PWD/a" -- env PYTHONPATH="$top_srcdir/launcher/python" python3 "$PWD/train.py" $arguments >out.txt 2>&1 || { cat out.txt >&2; false; }
  done
  run jq -c '.jobs[0].series[] | select(.name == "loss") | [.step, .value, .attempt]' <("$dlctl" metrics --json a)
  [ "$output" = '[[0,10,20,30,40],[0.9,0.9,0.5,0.5,0.5],[1,1,2,2,2]]' ]
  run jq -c '.jobs[0].series[] | select(.name == "loss") | .superseded' <("$dlctl" metrics --json --all a)
  [ "$output" = '[false,false,true,true,false,false,false]' ]
}

@test "outside of a job dl.metric() does nothing" {
  reports train.py
  run env PYTHONPATH="$top_srcdir/launcher/python" python3 train.py 0 10 0.5
  [ "$status" -eq 0 ]
  [ "$output" = 'step 0: loss=0.5 lr=0.01' ]
}

@test "programs in C and C++ report by dl_metric(), without MPI being started" {
  local flags=(-Wall -Wextra -Werror -I"$top_srcdir/launcher/collectives/include" -L"$top_builddir/launcher/collectives/.libs" -ldllearner
    "-Wl,-rpath,$top_builddir/launcher/collectives/.libs")
  cat >one.c <<'C'
#include <dllearner.h>
#include <stdio.h>
int main(void) {
  const dl_metric_value values[] = {{"loss", 0.25}, {"accuracy", 0.5}};
  for (int step = 0; step < 3; ++step)
    if (dl_metric(values, 2, step, DL_METRIC_TRAIN) != DLLEARNER_OK) return 1;
  if (dl_metric(values, 2, -7, DL_METRIC_TRAIN) != DLLEARNER_E_INVALID) return 2;
  puts(dllearner_error());
  return 0;
}
C
  cat >two.cpp <<'C'
#include <dllearner.h>
int main() {
  const double loss = 0.125;
  return dl_metric({{"loss", loss}, {"f1", 0.5}}, 7, DL_METRIC_VALIDATE) + dl_metric({{"lr", 0.01}}, 7);
}
C
  "${CC:-gcc}" -std=c99 one.c "${flags[@]}" -o one
  "${CXX:-g++}" -std=c++17 two.cpp "${flags[@]}" -o two
  "${CXX:-g++}" -std=c++98 -pedantic -x c++ one.c "${flags[@]}" -o old
  run ./one
  [ "$status" -eq 0 ]
  [ "$output" = 'step: -7 is no train step; allowed: 0 to 1000000000000, or DL_METRIC_NO_STEP' ]
  run_job a "$PWD/one && $PWD/two"
  run "$dlctl" metrics a
  contains "$output" '^loss +train +3 +2 +0.25 '
  contains "$output" '^accuracy +train +3 +2 +0.5 '
  contains "$output" '^loss +validate +1 +7 +0.125 '
  contains "$output" '^lr +train +1 +7 +0.01 '
}

@test "FfDL's programs, which write evaluation-metrics.txt into LOG_DIR, are understood" {
  cat >train.py <<'PY'
import json, os
with open(os.path.join(os.environ["LOG_DIR"], "evaluation-metrics.txt"), "a") as file:
    for step in range(1, 4):
        for group, values in (("train", {"cost": 1 / step}), ("test", {"accuracy": step / 4, "name": "digits"})):
            file.write(json.dumps({"meta": {"training_id": os.environ["TRAINING_ID"], "time": 1789000000000 + step, "rindex": step}, "grouplabel": group,
                                   "etimes": {"iteration": {"type": 2, "value": str(step)}, "time_stamp": {"value": "2026-11-27"}},
                                   "values": {name: {"type": 3, "value": str(value)} for name, value in values.items()}}) + "\n")
        file.flush()
PY
  "$dlrun" -f pytorch --job-dir "$PWD/a" -- python3 "$PWD/train.py" >out.txt 2>&1 || { cat out.txt >&2; false; }
  run "$dlctl" metrics a
  contains "$output" '^cost +train +3 +3 +0.333333 '
  contains "$output" '^accuracy +test +3 +3 +0.75 +0.25 at 1 +0.75 at 3$'
  run jq -c '.jobs[0].series[] | select(.name == "cost") | .time_ms' <("$dlctl" metrics --json a)
  [ "$output" = '[1789000000001,1789000000002,1789000000003]' ]
  mkdir mine
  LOG_DIR=$PWD/mine "$dlrun" -f pytorch --job-dir "$PWD/b" -- python3 "$PWD/train.py" >out.txt 2>&1 || { cat out.txt >&2; false; }
  [ -s mine/evaluation-metrics.txt ]
  run -3 "$dlctl" metrics b
}

@test "expressions of --metrics find values, and so do those of a catalogue entry" {
  printf 'summary = "ours"\nfamilies = ["ffdl"]\n[metrics]\npatterns = ["cost %%{FLOAT:cost} after %%{INT:step}"]\n' >cat/ours.toml
  "$dlrun" -f ours --metrics 'q=(?<val_q>%{FLOAT}) || depth: %{INT:depth}' --job-dir "$PWD/a" -- sh -c 'echo "cost 0.5 after 3"; echo "q=0.25"; echo "depth: 7"' \
    >out.txt 2>&1 || { cat out.txt >&2; false; }
  run "$dlctl" metrics a
  contains "$output" '^cost +train +1 +3 +0.5 '
  contains "$output" '^q +validate +1 +- +0.25 '
  contains "$output" '^depth +train +1 +- +7 '
  run "$dlrun" -f ours --metrics '%{FLOAT:a' -- true
  [ "$status" -eq 2 ]
  contains "$output" "^dlrun: --metrics: '%{FLOAT:a' has a %{ without its }; allowed: %{FLOAT}"
  DL_METRICS='(?<a>' run "$dlrun" -f ours -- true
  [ "$status" -eq 2 ]
  contains "$output" "^dlrun: DL_METRICS: '\\(\\?<a>' is not a regular expression: "
  run "$dlrun" -f ours --metrics 'a=%{INT:a}' --dry-run -- true
  contains "$output" '^metrics +cost %\{FLOAT:cost\} after %\{INT:step\}$'
  contains "$output" '^metrics +a=%\{INT:a\}$'
}
