#!/usr/bin/env bats
# How many learners a job needs, as its learners say: votes in Python, C and C++ through dlrun, without Slurm, as dlctl status shows them.
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

bats_require_minimum_version 1.5.0

setup() {
  dlrun_setup
  dlctl=$top_builddir/launcher/ctl/dlctl
  export PYTHONPATH=$top_srcdir/launcher/python:$top_srcdir/checkpoint/python
}

# shows PATTERN: until dlctl status of the job in ./a has such a line, 60 s at most.
shows() {
  for _ in $(seq 300); do
    grep -qE -- "$1" <<<"$("$dlctl" status a 2>/dev/null)" && return 0
    sleep 0.2
  done
  printf 'expected: %s\nin: ' "$1" >&2
  "$dlctl" status a >&2
  cat out.txt >&2
  return 1
}
# start LEARNERS COMMAND...: begins the job in ./a, whose learners wait for the file ./go or ./go-RANK at their ends.
start() {
  "$dlrun" -f generic -n "$1" --job-dir "$PWD/a" -- "${@:2}" >out.txt 2>&1 3>&- &
  dlrun_pid=$!
}
# finish: lets the learners end, and looks that the job was well.
finish() {
  touch go
  wait "$dlrun_pid" || { cat out.txt >&2; return 1; }
}

# voter FILE: a program in Python, without checkpoints, that votes as ./vote-RANK says and ends when it may.
voter() {
  cat >"$1" <<'PY'
import os, time
import dl, dlckpt
rank = os.environ["DL_RANK"]
vote = dlckpt.vote if rank == "1" else dl.vote
last = ""
while not os.path.exists("go") and not os.path.exists("go-" + rank):
    text = open("vote-" + rank).read() if os.path.exists("vote-" + rank) else ""
    if text.endswith("\n") and text != last:
        change, reason = text[:-1].split(" ", 1)
        vote(int(change), reason)
        last = text
    time.sleep(0.05)
PY
}

@test "the job's vote is the median of its learners', a newer vote replaces the last one, and a learner that has ended has none" {
  voter train.py
  for rank in 0 1 2; do echo "2 loader stalls 4$rank %" >vote-$rank; done
  start 4 python3 "$PWD/train.py"
  shows '^votes +\+2 by 3 of 4 learners \(at most 4 were asked for\): loader stalls 40 %$'
  run jq -c '.[0].votes' <("$dlctl" status --json a)
  [ "$output" = '{"change":2,"wanted":4,"voted":3,"learners":4,"reason":"loader stalls 40 %"}' ]
  for rank in 1 2 3; do echo "-1 the loader keeps up" >vote-$rank; done
  shows '^votes +-1 by 4 of 4 learners \(at least 4 were asked for\): the loader keeps up$'
  touch go-0 go-1
  shows '^votes +no change by 2 of 4 learners: the loader keeps up$'
  finish
  run jq -c '.[0].votes' <("$dlctl" status --json a)
  [ "$output" = null ]
}

@test "of votes by the thousand the last one is shown, and another attempt begins without votes" {
  cat >train.py <<'PY'
import os, sys, time
import dl
if os.environ["DL_ATTEMPT"] == "1":
    for i in range(20000):
        dl.vote(i % 7, "round %d" % i)
    dl.vote(5, "the last one")
    while not os.path.exists("fail"):
        time.sleep(0.05)
    sys.exit(1)
while not os.path.exists("go"):
    time.sleep(0.05)
PY
  "$dlrun" -f generic --restarts 1 --job-dir "$PWD/a" -- python3 "$PWD/train.py" >out.txt 2>&1 3>&- &
  dlrun_pid=$!
  shows '^votes +\+5 by 1 of 1 learner \(at most 1 were asked for\): the last one$'
  touch fail
  shows '^attempt +2, restarts in it: 1$'
  shows '^state +PROCESSING'
  run ! grep -q '^votes' <<<"$("$dlctl" status a)"
  finish
}

@test "what a hostile program writes into the page is no vote, and what it votes reaches no terminal as it is" {
  cat >train.py <<'PY'
import os, struct, time
import dl
from dl import voting
def put(data):
    fd = os.open(os.environ["DL_PROGRESS"], os.O_RDWR)
    os.pwrite(fd, data, voting.VOTE_AT)
    os.close(fd)
def raw(size, number, change, reason):
    rest = struct.pack("=IQq200s", size, number, change, reason)
    return struct.pack("=I", voting._check_sum(rest)) + rest
for bad in (os.urandom(3000), raw(8, 1, 2, b"\x1b]0;x\x07y"), raw(1 << 31, 2, 2, b"x"), raw(1, 3, 1 << 40, b"x"), raw(2, 4, 1, b"\xff\xfe")):
    put(bad)
    time.sleep(0.5)
with open("there", "w") as file:
    print("there", file=file)
while not os.path.exists("now"):
    time.sleep(0.05)
dl.vote(1, "\u202egnp.exe \u2028 x\\x1b")
while not os.path.exists("go"):
    time.sleep(0.05)
PY
  start 1 python3 "$PWD/train.py"
  wait_grep there there
  run ! grep -q '^votes' <<<"$("$dlctl" status a)"
  touch now
  LC_ALL=C.UTF-8 shows '^votes +\+1 by 1 of 1 learner .*: \\xe2\\x80\\xaegnp\.exe \\xe2\\x80\\xa8 x\\x1b$'
  finish
}

@test "programs in C and C++ vote by dllearner_vote(), and nothing happens outside of dlrun" {
  local flags=(-Wall -Wextra -Werror -I"$top_srcdir/launcher/collectives/include" -L"$top_builddir/launcher/collectives/.libs" -ldllearner
    "-Wl,-rpath,$top_builddir/launcher/collectives/.libs")
  cat >one.c <<'C'
#include <dllearner.h>
#include <stdio.h>
int main(void) {
  if (dllearner_vote(+3, "queue is empty") != DLLEARNER_OK) return 1;
  if (dllearner_vote(1, "\033[31m") != DLLEARNER_E_INVALID) return 2;
  puts(dllearner_error());
  return dllearner_vote(100001, NULL) == DLLEARNER_E_INVALID ? 0 : 3;
}
C
  cat >two.cpp <<'C'
#include <dllearner.h>
#include <string>
int main() { return dllearner_vote(-1) + dllearner_vote(+2, "rank " + std::to_string(7)); }
C
  "${CC:-gcc}" -std=c99 one.c "${flags[@]}" -o one
  "${CXX:-g++}" -std=c++11 two.cpp "${flags[@]}" -o two
  "${CXX:-g++}" -std=c++98 -pedantic -x c++ one.c "${flags[@]}" -o old
  run ./one
  [ "$status" -eq 0 ]
  [ "$output" = "reason: '\\x1b[31m' is no short text; allowed: at most 200 bytes of UTF-8 without control characters" ]
  ./two
  # shellcheck disable=SC2016  # expands in the learner
  start 2 sh -c 'if [ "$DL_RANK" = 0 ]; then ./one; else ./two; fi; while [ ! -e go ]; do sleep 0.05; done'
  shows '^votes +\+2 by 2 of 2 learners .*: rank 7$'
  finish
}
