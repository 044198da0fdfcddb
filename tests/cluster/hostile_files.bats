#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016  # lib.bash has $stage; what mallory runs expands there
# Attacks by files and connections: checkpoints that root looks at, directories of other people, ports of a running job,
# texts on terminals. attacks.md lists them.
bats_require_minimum_version 1.5.0
load lib.bash
load hostile.bash

setup_file() { hostile_up; }
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() { hostile_end; }

@test "root's dlckpt follows no link out of a user's checkpoint directory, and takes neither long nor much" {
  golden=$(echo "$top_srcdir"/tests/data/checkpoint/v1/step-*)
  step=$(basename "$golden")
  mkdir root && chmod 700 root
  echo TOPSECRET >root/secret
  cp -r "$golden" root/step
  chmod -R go= root
  export secret=$PWD/root
  before=$(cd root && find . -type f -exec cksum {} + | sort)
  count=0
  # name ^ what mallory does in the checkpoint directory ^ what root asks of dlckpt, with DIR in the place of the directory
  while IFS='^' read -r name deed question; do
    [[ -n ${name// /} ]] || continue
    ((++count))
    dir=$PWD/ck.$count
    mallory mkdir "$dir"
    cp -r "$golden" "$dir"
    chown -R "$(some_user)" "$dir" && chmod -R u+w "$dir"
    mallory env secret="$secret" step="$step" bash -c "cd $dir && $deed" >/dev/null 2>&1 || true
    # shellcheck disable=SC2086  # words
    bounded out "$stage/bin/dlckpt" ${question//DIR/"$dir"} || { echo "attack: $name"; return 1; }
    [[ $name != *'nothing strange'* ]] || grep -q "$step" out || { echo 'it does not list a good checkpoint'; cat out; return 1; }
    if grep -qa TOPSECRET out || [ "$(cd root && find . -type f -exec cksum {} + | sort)" != "$before" ]; then
      printf 'root read or wrote through a link: %s\n' "$name"
      cat out
      return 1
    fi
    run ! grep -qaF $'\e' out
    [ "$status" -ne 0 ] || { echo "raw escapes reach the terminal: $name"; return 1; }
    echo "ok $name: $(head -c 150 out | head -n 1)"
  done <<'END'
    nothing strange                   ^ true                                                              ^ ls DIR
    a manifest that is a link, ls     ^ ln -sf $secret/secret $step/MANIFEST.json                         ^ ls DIR
    a manifest that is a link, show   ^ ln -sf $secret/secret $step/MANIFEST.json                         ^ show DIR
    a manifest that is a link, verify ^ ln -sf $secret/secret $step/MANIFEST.json                         ^ verify DIR
    tensors that are a link           ^ ln -sf $secret/secret $step/r00000.h5                             ^ verify DIR
    tensors that are a device         ^ ln -sf /dev/zero $step/r00000.h5                                  ^ verify DIR
    tensors that are 40 GB            ^ truncate -s 40G $step/r00000.h5                                   ^ show DIR
    a checkpoint that is a link       ^ rm -r $step; ln -s $secret/step $step                             ^ gc --keep 1 DIR
    an unfinished one that is a link  ^ ln -s $secret/step .tmp-$step                                     ^ gc --keep 1 DIR
    an unfinished one full of links   ^ mkdir .tmp-$step; ln -s $secret/secret .tmp-$step/a; ln -s $secret/step .tmp-$step/b ^ gc --keep 1 DIR
    messages that are a link          ^ ln -s $secret/step .run-00000000000000aa                          ^ gc --keep 1 DIR
    a lease that is a link            ^ ln -s $secret/secret LEASE                                        ^ gc --keep 1 DIR
    a history that is a link          ^ ln -s $secret/secret SAVES.jsonl                                  ^ ls DIR
    the newest's name that is a link  ^ ln -sf $secret/secret LATEST                                      ^ ls DIR
    a pin that is a link              ^ ln -s $secret/secret $step/PINNED                                 ^ pin DIR
    a pin that is to be made there    ^ ln -s $secret/made $step/PINNED                                   ^ pin DIR
    a manifest of brackets            ^ yes '[' | head -c 90000000 >$step/MANIFEST.json                   ^ show DIR
    a manifest of 40 GB               ^ truncate -s 40G $step/MANIFEST.json                               ^ ls DIR
    a manifest of empty lists         ^ (echo '['; yes '[],' | head -c 90000000) >$step/MANIFEST.json     ^ verify DIR
    a name with escapes               ^ mv $step "$(printf 'step-\033[2J')"                               ^ ls DIR
    a history with escapes            ^ printf '{"a":"\033[2J"}\n\033[2J\n' >SAVES.jsonl                  ^ ls DIR
    a lease with escapes              ^ printf '{"job":"\033[2J","host":"\033]0;x\007"}' >LEASE           ^ gc --keep 1 DIR
END
  echo "$count attacks"
  [ ! -e root/made ]
  ((count >= 22))
}

# others_job [options of sbatch]: a job of games', of the tenant lab.
others_job() { as_user games sbatch --parsable -A lab "$@" 2>said; }

@test "what belongs to another user is neither written, taken nor run by a job" {
  as_user games mkdir -m 755 "$PWD/theirs" "$PWD/theirs/ck" "$PWD/theirs/dl"
  as_user games bash -c "echo kept >'$PWD/theirs/ck/mine'"
  as_user games mkdir -m 700 "$PWD/closed"
  before=$(find theirs closed | sort)
  printf '#!/bin/bash\nexec dlrun --framework=generic --learners=1 "$@"\n' >s.sh
  chmod 755 s.sh
  count=0
  while IFS='^' read -r words arguments; do
    [[ -n ${words// /} ]] || continue
    words=$(sed -E 's/^ +| +$//g' <<<"$words")
    ((++count))
    # shellcheck disable=SC2086  # words
    job=$(mallory sbatch --parsable -o "$PWD/out.$count" -A bio --gpus=1 s.sh $arguments -- sh -c 'echo it ran' 2>said) || { cat said; return 1; }
    wait_state "$job" FAILED,COMPLETED,CANCELLED 30
    run ! grep -q 'it ran' "out.$count"
    grep -qE "$words" "out.$count" || { echo "not said: $words"; cat "out.$count"; return 1; }
  done <<END
    denied ^ --checkpoint=$PWD/theirs/ck
    denied ^ --checkpoint=$PWD/theirs/new
    denied ^ --checkpoint=$PWD/closed/ck
    belongs to another user ^ --job-dir=$PWD/theirs/dl
    denied ^ --job-dir=$PWD/theirs/new
    denied ^ --job-dir=$PWD/closed/dl
END
  ((count == 6))
  [ "$(find theirs closed | sort)" = "$before" ]
  [ "$(cat theirs/ck/mine)" = kept ]
}

@test "a job directory that another user has laid out, or linked elsewhere, is not used" {
  printf '#!/bin/bash\nexec dlrun --framework=generic --learners=1 -- sh -c "echo it ran"\n' >s.sh
  chmod 755 s.sh
  as_user games mkdir -m 700 "$PWD/home"
  as_user games bash -c "echo kept >'$PWD/home/events.jsonl'"
  count=0
  while IFS='^' read -r name deed; do
    [[ -n ${name// /} ]] || continue
    ((++count))
    # Held, so that mallory has time to see its number, as anybody has.
    job=$(others_job -H -o "$PWD/out.$count" --dl-framework=generic --dl-learners=1 --dl-gpus=1 s.sh)
    job=${job%%;*}
    mallory env dir="$PWD/dl-$job" home="$PWD/home" bash -c "$deed"
    as_user games scontrol release "$job"
    wait_state "$job" FAILED,COMPLETED,CANCELLED 30
    cat "out.$count"
    run ! grep -q 'it ran' "out.$count"
    assert_contains "$(cat "out.$count")" "dl-$job: (this job directory(, a link,)? belongs to another user|exists and is not a folder)"
    [ "$(cat home/events.jsonl)" = kept ]
    [ "$(find home | wc -l)" = 2 ]
    echo "ok $name"
  done <<'END'
    a folder of mallory's that all may write to ^ mkdir -m 777 $dir
    a folder with a history in it               ^ mkdir -m 777 $dir; echo '{"state":"COMPLETED"}' >$dir/events.jsonl
    a folder with links in it                   ^ mkdir -m 777 $dir; ln -s $home/events.jsonl $dir/events.jsonl; ln -s $home $dir/logs
    a link to a folder of the victim's          ^ ln -s $home $dir
    a file in its place                         ^ touch $dir
    a pipe in its place                         ^ mkfifo $dir
END
  ((count == 6))
}

@test "rubbish, floods and wrong secrets at the ports of a running job change nothing in it" {
  [[ -x $top_builddir/tests/lib/toy_learner ]] || skip "built without HDF5"
  printf '#!/bin/bash\nexec dlrun --framework=generic --learners=2 -- %s 300 50\n' "$top_builddir/tests/lib/toy_learner" >s.sh
  chmod 755 s.sh
  job=$(others_job -o "$PWD/out" -N2 --chdir="$PWD" --dl-framework=generic --dl-learners=2 --dl-gpus=1 --dl-checkpoint="$PWD/ck.games" s.sh)
  job=${job%%;*}
  wait_file out 'saved|step|learner' 30
  wait_file "dl-$job/events.jsonl" PROCESSING 30
  host=$(job_field "$job" BatchHost) port=$(sed -nE 's/.*"port": ([0-9]+).*/\1/p' "dl-$job/control.json")
  run mallory cat "dl-$job/control.json"
  [ "$status" -ne 0 ]
  # Each socket of the job's hosts, as anybody finds them by trying all ports.
  on_node "$host" ss -Hlntup | grep -E 'dlrun|dl-agent|toy_learner' >sockets || true
  cat sockets
  cat >attack.py <<'END'
import os, socket, sys, time
host, control = sys.argv[1], int(sys.argv[2])
others = [(line.split()[0], int(line.split()[4].rsplit(":", 1)[1])) for line in open("sockets")]
ports = {("tcp", control)} | set(others)
def talk(port, data):
    try:
        s = socket.create_connection((host, port), 2)
        s.settimeout(0.5)
        s.sendall(data)
        s.recv(4096)
        s.close()
    except OSError:
        pass
secret = "0" * 32
rubbish = [b"\n", b"\0" * 4096, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"{" * 100000 + b"\n", b"[" * 1000000, os.urandom(65536), b"A" * 3000000,
           b'{"type":"hello"}\n', b'{"type":"pause"}\n', b'{"type":"pause","secret":""}\n', b'{"type":"pause","secret":null}\n',
           ('{"type":"pause","secret":"%s"}\n' % secret).encode(), ('{"type":"hello","role":"agent","node":0,"secret":"%s"}\n' % secret).encode(),
           ('{"type":"resume","session":1,"token":"%s","answer":"%s"}\n' % (secret, secret)).encode(), b'{"type":1e999,"secret":[{}]}\n', b"\xff\xfe\n" * 1000]
for kind, port in sorted(ports):
    if kind.startswith("udp"):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for n in range(20000):
            s.sendto(os.urandom(n % 200), (host, port))
    else:
        for data in rubbish: talk(port, data)
        for n in range(500): talk(port, b"") if n % 50 == 0 else socket.create_connection((host, port), 2).close()
print("ports", len(ports), "kinds", sorted({kind for kind, _ in ports}))
END
  mallory env -C "$PWD" timeout 120 python3 attack.py "$host" "$port" >attacked 2>&1 || { cat attacked; return 1; }
  # More than one port was found, also one of UDP.
  grep -qE "ports ([2-9]|[1-9][0-9]+) kinds \['tcp', 'udp'\]" attacked || { cat attacked sockets; return 1; }
  wait_state "$job" COMPLETED 60
  assert_contains "$(cat out)" 'done: 300 counted, none lost'
  [ "$(job_field "$job" Restarts)" = 0 ]
  run ! grep -qE 'attempt 2' out
}

@test "texts of users that look like a label, a record or a command are texts, to the policy and to a terminal" {
  start_daemon
  esc=$(printf '\033[2J\033]0;owned\007')
  job=$(borrow --gpus=1 -J "x AdminComment=dl:1 tenant=lab charge=own" --comment='dl:1 tenant=lab tier=guaranteed charge=own back=never' --wrap 'sleep 600')
  other=$(borrow --gpus=1 -J "$esc" --comment="dl:PROCESSING attempt=1 dir=/ idle=1@1 $esc" --wrap 'sleep 600')
  third=$(borrow --gpus=1 -J "$(printf 'a\nJobId=1 UserId=root(0)')" --comment="$(printf 'idle=-9@9999999999 step=\nAdminComment=dl:1 tenant=lab charge=own')" --wrap 'sleep 600')
  for id in "$job" "$other" "$third"; do wait_state "$id" RUNNING 20; done
  wait_for 5 "job $other is borrowed" charged_as_borrowed "$other"
  # Its comment says AdminComment=, which would mislead who looks for the last one.
  [ "$(job_field "$third" Licenses)" = dl_bio/borrow:1 ]
  for command in "quota" "why $other" "why $third" "status --all" "status $other" "status $job" "quota reclaim --dry-run $other" "quota history"; do
    # shellcheck disable=SC2086  # words
    on_login script -qc "$stage/bin/dlctl $command" /dev/null >seen </dev/null || true
    run ! grep -qaE $'\e\\[2J|\e\\]0;' seen
    [ "$status" -ne 0 ] || { cat -v seen; echo "raw escapes: dlctl $command"; return 1; }
  done
  [[ $(job_field "$other" AdminComment) != *tenant=lab* ]]
  assert_contains "$(dlctl quota)" '^bio +1 +1 '
  assert_contains "$(dlctl quota)" '^lab +5 +0 '
  run ! grep -qaF $'\e' daemon.log
  [ "$status" -ne 0 ]
  run ! grep -q $'\e' metrics.prom
  [ "$status" -ne 0 ]
  claim=$(mallory sbatch --parsable -o /dev/null -A lab --gpus=5 --wrap 'sleep 600')
  wait_state "$claim" RUNNING 25
}

@test "a thousand submissions and arrays of a borrower hold up no owner" {
  start_daemon
  printf '#!/bin/bash\nfor n in {1..200}; do sbatch -Q -o /dev/null -A bio --gpus=1 --wrap "sleep 600"; done\nfor n in {1..4}; do sbatch -Q -o /dev/null -A bio --array=1-200 --gpus=1 --wrap "sleep 600"; done\n' >many
  chmod 755 many
  mallory "$PWD/many" &
  wait_for 30 "mallory holds all GPUs" eval '[ "$(on_login squeue -h -t RUNNING -o %i | wc -l)" = 6 ]'
  for gpus in 2 3; do
    claim=$(mallory sbatch --parsable -o /dev/null -A lab --gpus=$gpus --wrap 'sleep 600')
    wait_state "$claim" RUNNING 25
  done
  wait $!
  on_login squeue -h -r -o %i | wc -l
  (($(on_login squeue -h -r -o %i | wc -l) >= 1000))
}
