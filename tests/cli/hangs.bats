#!/usr/bin/env bats
# Learners that make no progress: noticed, written down, the right one named, ended. Without Slurm.
# shellcheck disable=SC2016  # much here is expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup() {
  dlrun_setup
}

@test "a learner that stops in mid-training is named, though the others write on; all stacks are kept" {
  [[ -x $learner ]] || skip "built without HDF5"
  run "$dlrun" -n 2 --hang-timeout 3s -c ck --job-dir job -- \
    sh -c '[ $RANK = 1 ] && { (sleep 1.5; kill -STOP $$) & }; exec "$0" 100003 50' "$learner"
  [ "$status" -eq 77 ]
  contains "$output" 'learner 1 has made no progress for [0-9]+ s; writing stack traces to .*/logs/attempt-1'
  contains "$output" 'learner 1 hangs: no progress for [0-9]+ s at train step [0-9]+, where others are at [0-9]+, stopped by a signal'
  contains "$output" 'class no-progress \(S220, ours\)'
  contains "$(cat job/logs/attempt-1/learner-1.stacks.txt)" '^thread [0-9]+ toy_learner, T \(stopped\), wchan'
  [ -s job/logs/attempt-1/learner-0.stacks.txt ]
  contains "$(jq -rc 'select(.learner == 1) | [.state, .code, .failure]' job/events.jsonl)" '"FAILED","S220","no-progress"'
  run pgrep -f "toy_learner 100003 50"
  [ -z "$output" ]
}

# What listens at NCCL_RAS_ADDR speaks as NCCL's own service does (nccl src/ras/client_support.cc), and every process listens there, as NCCL's do.
nccl_service() {
  cat >nccl.py <<'PY'
import os, signal, socket, sys, time
how, at = sys.argv[1], os.environ["NCCL_RAS_ADDR"].split(":")
listening = [socket.create_server((at[0], int(at[1])), reuse_port=True) for _ in range(7 if how == "stopped" else 1)]
print("listening", flush=True)
if how == "stopped":
    os.kill(os.getpid(), signal.SIGSTOP)
while True:
    client, _ = listening[0].accept()
    lines = client.makefile("rw")
    if how == "silent":
        time.sleep(100)
    try:
        if how == "foreign":
            lines.write("HTTP/1.1 400 Bad Request\r\n\r\n"), lines.flush(), client.close()
            continue
        asked = []
        for answer in ("SERVER PROTOCOL 2\n", "OK\n", "Communicator 0x7f: ranks 3,5 are behind in AllReduce\n" * 3):
            asked.append(lines.readline().strip())
            lines.write(answer), lines.flush()
        lines.write("asked: %s\n" % asked), lines.flush()
        lines.close(), client.close()
    except OSError:
        pass
PY
}

@test "the stacks of a hang hold what NCCL's status service says, once for a node; a silent or foreign service costs nothing" {
  nccl_service
  hang() { # HOW
    rm -rf job
    run timeout 180 "$dlrun" -n 2 --hang-timeout 2s --job-dir job -- sh -c '[ $RANK = 1 ] || exec python3 nccl.py "$0"; exec sleep 100' "$1"
    [ "$status" -eq 77 ]
  }
  hang nccl
  local text
  text=$(cat job/logs/attempt-1/learner-0.stacks.txt)
  contains "$text" "^== NCCL's status of the job, told by learner 0 \(process [0-9]+\)$"
  [ "$(grep -c 'ranks 3,5 are behind in AllReduce' <<<"$text")" = 3 ]
  contains "$text" "^asked: \['CLIENT PROTOCOL 2', 'TIMEOUT 2', 'VERBOSE STATUS'\]$"
  run ! grep NCCL job/logs/attempt-1/learner-1.stacks.txt
  for how in silent foreign; do
    hang $how
    contains "$(cat job/logs/attempt-1/learner-0.stacks.txt)" '^thread [0-9]+ python3'
    run ! grep "status of the job" job/logs/attempt-1/learner-0.stacks.txt
  done
}

@test "where the process that NCCL's status service is asked of stands still, another learner's is asked and named" {
  nccl_service
  run timeout 180 "$dlrun" -n 2 --hang-timeout 2s --job-dir job -- \
    sh -c '[ $RANK = 1 ] && how=nccl || how=stopped; exec python3 nccl.py $how'
  [ "$status" -eq 77 ]
  local text
  text=$(cat job/logs/attempt-1/learner-0.stacks.txt)
  contains "$text" "^== NCCL's status of the job, told by learner 1 \(process [0-9]+\)$"
  contains "$text" "ranks 3,5 are behind in AllReduce"
}

@test "with restarts the learners start again" {
  run "$dlrun" -r 1 --hang-timeout 2s --job-dir job -- sh -c 'echo ready; [ $DL_ATTEMPT = 2 ] || exec sleep 100'
  [ "$status" -eq 0 ]
  contains "$output" 'learner 0 hangs: no progress for [23] s; restart 1 of 1'
}

@test "an agent that stands still is named, its learner ended, and the learners start again; not so where dlrun stood still" {
  printf '[launcher]\nagent_timeout = "2s"\n' >>dl.toml
  # The first attempt of learner 1 stops its agent; that of learner 0 stops dlrun for longer than the limit at first.
  run "$dlrun" -n 2 -r 1 --job-dir job -- sh -c '
    [ $DL_ATTEMPT = 1 ] || exit 0
    if [ $RANK = 0 ]; then
      dlrun=$(jq .pid job/control.json); kill -STOP $dlrun; sleep 3; kill -CONT $dlrun; sleep 1; touch woken; exec sleep 98
    fi
    until [ -e woken ]; do sleep 0.1; done
    kill -STOP $PPID; exec sleep 98'
  [ "$status" -eq 0 ]
  [ -e woken ]
  contains "$output" 'learner 1 was lost: its agent \(dl-agent\) on .* has said nothing for 2s, though its node answers; restart 1 of 1'
  run pgrep -f "^sleep 98$"
  [ -z "$output" ]
}

@test "a program that writes, and a silent one that computes, are left alone" {
  run "$dlrun" -n 2 --hang-timeout 2s -- sh -c 'end=$(($(date +%s) + 5)); while [ "$(date +%s)" -lt $end ]; do
    [ $RANK = 0 ] && { echo on; sleep 0.5; }; done; :'
  [ "$status" -eq 0 ]
}

@test "a learner that is slower than the others is named, and nothing is done about it" {
  [[ -x $learner ]] || skip "built without HDF5"
  "$dlrun" -n 3 -c ck --job-dir job -- sh -c 'exec "$0" 100000 $([ $RANK = 1 ] && echo 40 || echo 20)' "$learner" 2>said 3>&- &
  for _ in {1..150}; do grep -q slow: said && break; sleep 0.1; done
  run "$top_builddir/launcher/ctl/dlctl" status job
  contains "$output" '^1 .* slow: its train step takes [0-9.]+ ms, the median of 3 learners is [0-9.]+ ms'
  kill -INT %1; sleep 0.5; kill -INT %1 # within 0.3 s another Ctrl-C counts as the same
  wait %1 || true
  contains "$(cat said)" 'warning: learner 1 on [^ ]+ is slow: its train step takes [0-9.]+ ms, the median of 3 learners is [0-9.]+ ms'
  [ "$(grep -c 'warning: learner' said)" -eq 1 ]
  contains "$(jq -rc 'select(.learner == 1) | [.state, .reason]' job/events.jsonl)" '"PROCESSING","slow: '
}

@test "a time that is none is refused" {
  run "$dlrun" --hang-timeout soon -- true
  [ "$status" -eq 2 ]
  contains "$output" "^dlrun: --hang-timeout: 'soon'"
}
