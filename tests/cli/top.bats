#!/usr/bin/env bats
# dlctl top in a real terminal: what it shows of runs without Slurm, what its keys do, wide and narrow, without colours and
# without UTF-8, with hostile names and logs; and however it ends, the terminal is as it was before.
# shellcheck disable=SC2016  # the scripts of learners expand there
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

bats_require_minimum_version 1.5.0

setup() {
  dlrun_setup
  dlctl=$top_builddir/launcher/ctl/dlctl
  export LC_ALL=C.UTF-8 TERM=xterm-256color
  unset NO_COLOR
}

# on_terminal COLUMNSxROWS COMMAND...: the steps are on standard input (tests/lib/on_terminal.py).
on_terminal() { python3 "$top_srcdir/tests/lib/on_terminal.py" "$@"; }
# start_job DIR SCRIPT: a run in the background, whose learner has printed something.
start_job() {
  "$dlrun" -f generic --job-dir "$PWD/$1" -- sh -c "$2" >"out-$1.txt" 2>&1 &
  wait_grep . "$1"/logs/attempt-1/learner-0.log
}
# run_job DIR SCRIPT: one that ends.
run_job() { "$dlrun" -f generic --job-dir "$PWD/$1" -- sh -c "$2" >"out-$1.txt" 2>&1; }
# Trains until the file `enough` is there: 20 train steps a second of 100000.
training() { echo "i=0; while [ ! -e $PWD/enough ]; do i=\$((i + 1)); echo \"step \$i/100000: loss=0.\$((900 - i % 900))\"; sleep 0.05; done"; }

@test "jobs stand in a list with rate, loss and what is left; one is opened, with its curve, its last lines and what happened" {
  start_job a "$(training)"
  run_job b 'echo "step 3: loss=0.5"; exit 3' || true
  on_terminal 120x40 "$dlctl" top a b <<'STEPS'
see dlctl top .* 2 jobs: 1 FAILED, 1 PROCESSING
see JOB +NAME +STATE\+ +SINCE +STEP +STEP/S +LOSS +LEFT +GPU +CPU +SAVE +WHY
see ^> a +- +PROCESSING .* \d+ +\d+(\.\d+)? +0\.\d+ +\dh\d\dm +- +- +-
see ^  b +- +FAILED .* 3 +- +0\.5 +- +- +- +- .*exit
see q quit +enter open
type s
see STATE +SINCE\+
type SS<\033[B
see STATE\+
see ^> b
type \033[A\r
see ^train step +\d+ of 100000
see ^rate +\d+(\.\d+)? train steps a second
see ^left +\dh\d\dm, expected end \d
see ^use +GPU not measured, CPU not measured
see ^next save +not known
see ^directory .*/a$
see ^loss$
see last lines of learner 0, attempt 1
see ^step \d+/100000: loss=
type \033[F
see ^\d\d:\d\d:\d\d +PROCESSING +attempt 1
type \033
see ^> a
type ?
see newest training loss
type q
see ^> a
fits
type q
ends 0
STEPS
  touch enough && wait
}

@test "a run is paused after a question, and only then" {
  [[ -x $learner ]] || skip "built without HDF5"
  mkdir ckpt
  "$dlrun" -f generic --job-dir "$PWD/a" --checkpoint "$PWD/ckpt" -- "$learner" 100000 50 >out.txt 2>&1 &
  # Until dlrun knows of a train step, a pause is refused: it would throw the run away.
  within=$((SECONDS + 60))
  until "$dlctl" status "$PWD/a" --json | jq -e 'any(.[]; .step >= 1)' >seen.json; do
    ((SECONDS < within)) || { "$dlctl" status "$PWD/a" --json; false; }
    sleep 0.1
  done
  on_terminal 100x20 "$dlctl" top a <<'STEPS'
see ^> a +- +PROCESSING
type r
see job a is not paused: it is PROCESSING
type p
see Pause job a\? y/n
type n
see nothing was done
type py
see job .*a.* is told to pause
see ^> a +- +HALTED .*paused: saved
type q
ends 0
STEPS
  wait_grep '"HALTED"' a/events.jsonl
  wait || true
}

@test "the terminal is as it was before, whichever signal ends top; and it ends where the terminal goes away" {
  run_job a 'echo "step 3: loss=0.5"'
  for signal in TERM:143 INT:130 HUP:129 QUIT:131 ABRT:134 SEGV:139; do
    on_terminal 80x24 env -i PATH="$PATH" TERM=xterm LC_ALL=C.UTF-8 sh -c 'ulimit -c 0; exec "$@"' sh "$dlctl" top a <<STEPS
see ^> a
signal ${signal%:*}
ends ${signal#*:}
STEPS
  done
  # Ctrl-C and Ctrl-\ are signals, too.
  on_terminal 80x24 "$dlctl" top a <<'STEPS'
see ^> a
type \x03
ends 130
STEPS
  # Ctrl-S has stopped the terminal.
  on_terminal 80x24 "$dlctl" top a <<'STEPS'
see ^> a
type \x13
signal TERM
ends 143
STEPS
  python3 - "$dlctl" <<'PY'
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "top", "a"])
text = b""
while b"> a" not in text:
    text += os.read(terminal, 65536)
os.close(terminal)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert status == -1, status  # SIGHUP
PY
}

@test "it is stopped and goes on, and draws everything anew" {
  run_job a 'echo "step 3: loss=0.5"'
  on_terminal 80x24 env PS1='ready > ' bash --norc --noprofile --noediting -i <<STEPS
see ^ready >
type "$dlctl" top a\r
see ^> a
type \x1a
see Stopped
type fg\r
see ^> a
type q
see ^ready > *$
type exit 7\r
ends 7
STEPS
}

@test "it draws in the foreground alone: begun or continued in the background, and stopped by SIGSTOP" {
  run_job a 'echo "step 3: loss=0.5"'
  shell=(env PS1='ready > ' bash --norc --noprofile --noediting -i)
  stopped="until grep -q 'State:.*stopped' /proc/\$!/status; do sleep 0.05; done"
  on_terminal 120x24 "${shell[@]}" <<STEPS
see ^ready >
type "$dlctl" top a &\r
type $stopped; fg\r
see ^> a
type q
see ^ready > *$
type exit 7\r
ends 7
STEPS
  on_terminal 120x24 "${shell[@]}" <<STEPS
see ^ready >
type "$dlctl" top a\r
see ^> a
type \x1a
see Stopped
type bg\r
type $stopped; fg\r
see ^> a
type \x1a
see ^ready > *$
type kill %1; while jobs %1 >told 2>&1; do sleep 0.05; done; echo it is "gone"\r
see ^it is gone
type exit 7\r
ends 7
STEPS
  # The shell has set the terminal to its own lines meanwhile.
  on_terminal 120x24 "${shell[@]}" <<STEPS
see ^ready >
type sh -c 'echo \$\$ >pid; exec "\$@"' sh "$dlctl" top a\r
see ^> a
run kill -STOP \$(cat pid)
see Stopped
type fg\r
type ?
see newest training loss
type qq
see ^ready > *$
type exit 7\r
ends 7
STEPS
}

@test "a terminal of any size shows what it has room for, and its size may change" {
  start_job a "$(training)"
  run_job a-job-of-a-very-long-name 'echo "step 3: loss=0.5"'
  on_terminal 40x10 "$dlctl" top a a-job-of-a-very-long-name <<'STEPS'
see ^> a +PROCESSING
see ^  a-job-of-a-very…  COMPLETED
size 120x30
see ^> a +- +PROCESSING .* +0\.\d+ +\dh\d\dm
see enter open
size 20x5
see ^> a
size 1x1
type j
size 40x3
type \r
size 60x30
see ^train step
see ^last lines of
size 40x10
type \033[F
see PROCESSING
type q
see ^> a
fits
type q
ends 0
STEPS
  touch enough && wait
}

@test "without colours none is written, and without UTF-8 nothing but ASCII" {
  start_job größe "$(training)"
  NO_COLOR=1 on_terminal 100x30 "$dlctl" top größe <<'STEPS'
see ^> größe +- +PROCESSING
type \r
see ⠤|⠒|⣀|⠉
lacks \x1b\[(2|[349][0-9])m
type qq
ends 0
STEPS
  LC_ALL=C on_terminal 100x30 "$dlctl" top größe <<'STEPS'
see ^> gr.xc3.xb6.xc3.~ +- +PROCESSING
type \r
see \+-+\+
see ^train step
lacks [\x80-\xff]
type qq
ends 0
STEPS
  touch enough && wait
}

@test "names and logs of hostile jobs do nothing to the terminal" {
  evil=$'evil\x1b[2J\x1b]0;owned\x07'
  start_job "$evil" 'printf "\033[2J\033]52;c;eA==\007\033[5i\033c x\r10%%\r20%%\n\302\233\377\000 step 1: loss=0.5\n"; while [ ! -e '"$PWD"'/enough ]; do sleep 0.1; done'
  # Any sequence that the drawing itself does not use makes the test fail (on_terminal.py).
  on_terminal 100x40 "$dlctl" top "$PWD/$evil" <<'STEPS'
see ^> evil.x1b\[2J
type \r
see ^directory +.*evil.x1b\[2J
see ^20%
see x1b
type qq
fits
lacks \x1b\]
lacks \x07
ends 0
STEPS
  touch enough && wait
}

@test "a run whose directory's name is not UTF-8 is opened" {
  run_job a 'echo "step 3: loss=0.5"'
  mv a $'a\xff'
  on_terminal 100x30 "$dlctl" top $'a\xff' <<'STEPS'
see ^> a
type \r
see ^step 3: loss=0.5
type qq
ends 0
STEPS
}

@test "runs whose directories root does not read are two rows" {
  [ "$EUID" -eq 0 ] || skip "needs root"
  run_job a 'echo "step 3: loss=0.5"'
  cp -r a b
  chmod 777 a b  # of root, and others may write there
  on_terminal 100x30 "$dlctl" top a b <<'STEPS'
see ^> a
see ^  b
type j
see ^> b
type \r
see ^job +b
see its job directory cannot be read
type qq
ends 0
STEPS
}

@test "the job of another user whose dlrun was killed does not train for ever" {
  [ "$EUID" -eq 0 ] || skip "needs root"
  there=$(mktemp -d)
  chmod 755 "$there"
  start_job a "echo begun; while [ ! -e $PWD/enough ]; do sleep 0.1; done"
  kill -KILL $!
  touch enough
  mv a "$there/dl-12" && chown -R nobody "$there/dl-12"
  setpriv --reuid nobody --clear-groups test -r "$there/dl-12/events.jsonl" || skip "this folder is root's alone"
  # A Slurm that has the job for as long as there is a file `queued`.
  mkdir bin && touch queued
  # Each record begins with what the format begins with.
  cat >bin/squeue <<END
#!/bin/sh
[ -e $PWD/queued ] || exit 0
for format; do :; done
printf %s "\${format%%%i*}"
printf '12\037RUNNING\037None\037nobody\037p\037q\037a\037N/A\037N/A\037N/A\037n1\037$there\037train\037(null)\n'
END
  chmod +x bin/squeue
  PATH=$PWD/bin:$PATH on_terminal 120x20 "$dlctl" top --all <<'STEPS'
see ^> 12 +nobody +train +PROCESSING
run rm queued
see ^> 12 .* FAILED .*dlrun was killed
type q
ends 0
STEPS
  rm -r "$there"
}

@test "where one cannot draw, it prints once" {
  run_job a 'echo "step 3: loss=0.5"'
  run --separate-stderr "$dlctl" top a </dev/null
  [ "$status" -eq 0 ]
  [ -z "$stderr" ]
  contains "${lines[0]}" '^JOB  NAME  STATE '
  contains "${lines[1]}" '^a +- +COMPLETED .* 3 +- +0\.5 '
  [ "${#lines[@]}" -eq 2 ]
  lacks() { if LC_ALL=C grep -q $'\x1b' <<<"$output"; then return 1; fi; }
  for term in dumb ''; do
    TERM=$term run python3 "$top_srcdir/tests/lib/in_terminal.py" 80x24 "$dlctl" top a
    [ "$status" -eq 0 ]
    contains "$output" '^a +- +COMPLETED'
    lacks
  done
  run python3 "$top_srcdir/tests/lib/in_terminal.py" 80x24 "$dlctl" top --batch a
  contains "$output" '^a +- +COMPLETED'
  lacks
  # Where Slurm's commands are not installed, the directory of a Slurm's job is all there is of it.
  cp -r a dl-12
  run env PATH="$PWD/nowhere" "$dlctl" top -b dl-12
  [ "$status" -eq 0 ]
  contains "$output" '^12 +- +COMPLETED'
  # A Slurm without a job.
  mkdir bin
  printf '#!/bin/sh\n' >bin/squeue && chmod +x bin/squeue
  PATH=$PWD/bin:$PATH run "$dlctl" top -b 12
  [ "$output" = "none of these jobs is queued or running" ]
  PATH=$PWD/bin:$PATH run "$dlctl" top -b
  [ "$output" = "you have no job queued or running (all users: dlctl top --all)" ]
  run "$dlctl" top -b --sort size a
  [ "$status" -eq 2 ]
  contains "$output" "--sort 'size'; allowed: job, user, name, state, since, step, rate, loss, left, gpu, cpu, save, why"
  run "$dlctl" top -b nowhere
  [ "$status" -eq 3 ]
  contains "$output" "'nowhere' is not a folder"
}
