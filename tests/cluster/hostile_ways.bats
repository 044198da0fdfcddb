#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016  # lib.bash has $stage; what mallory runs expands there
# Attacks by ways around a rule: other means to start a process in a sealed job, names that another's job will use, times set back,
# questions that root rarely asks. attacks.md lists them.
bats_require_minimum_version 1.5.0
load lib.bash
load hostile.bash

setup_file() { hostile_up; }
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() { hostile_end; }

# bats test_tags=versions
@test "whatever starts a process in a sealed job, and by whatever protocol it speaks, it reaches no other host" {
  on_node n1 test -d /sys/fs/cgroup/unified || skip "this sandbox has cgroups of version 2 only beside version 1"
  on_node n1 bash -c 'command -v nft' >/dev/null || skip "needs the program nft"
  cat >serve.py <<'END'
import socket, threading
def datagrams():
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.bind(("", 7778))
    while True: print(u.recv(100).decode(), flush=True)
threading.Thread(target=datagrams, daemon=True).start()
s = socket.create_server(("", 7777), family=socket.AF_INET6, dualstack_ipv6=True)
while True: s.accept()[0].close()
END
  # try.py WAY ADDRESS-OF-VERSION-6: what it reaches of n3.
  cat >try.py <<'END'
import socket, sys
way, six = sys.argv[1:3]
for host in ["n3"] + [six] * (six != "-"):
    try:
        socket.create_connection((host, 7777), 2).close()
        print(way, host, "reached", flush=True)
    except OSError:
        print(way, host, "kept off", flush=True)
try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(way.encode(), ("n3", 7778))
except OSError: pass
END
  listen_on n3 python3 "$PWD/serve.py" >datagrams
  six=$(on_node n3 ip -6 -o addr show dev eth0 scope link 2>/dev/null | sed -nE 's/.* inet6 (fe80[^/]*).*/\1%eth0/p' | head -n 1)
  : "${six:=-}"
  wait_for 10 "n3 can be reached from outside jobs" eval 'on_node n1 python3 "$PWD/try.py" outside "$six" >control; grep -q "n3 reached" control'
  [ "$six" = - ] || grep -qF -- "$six reached" control
  wait_file datagrams '^outside$' 5
  for script in prolog epilog; do printf '#!/bin/bash\npython3 %s/try.py %s %s >>%s/tried\n' "$PWD" $script "$six" "$PWD" >$script.sh; done
  printf '0 python3 %s/try.py multi-prog %s\n' "$PWD" "$six" >multi.conf
  cat >s.sh <<END
#!/bin/bash
t() { python3 try.py "\$1" $six >>tried; }
if [[ -n \$SLURM_ARRAY_TASK_ID ]]; then t "element \$SLURM_ARRAY_TASK_ID"; exit; fi
if ((\${SLURM_RESTART_COUNT:-0} > 0)); then t "second run"; touch again; exit; fi
t script
srun --overlap python3 try.py step $six >>tried
srun --overlap --multi-prog multi.conf >>tried
srun --overlap --task-prolog=$PWD/prolog.sh true
srun --overlap --task-epilog=$PWD/epilog.sh true
touch ready
sleep 100
END
  chmod 755 ./*.sh
  job=$(mallory sbatch --parsable -o out -A sealed -n1 -w n1 --wrap ./s.sh 2>/dev/null)
  wait_for 60 "it has tried" test -e ready
  mallory srun -A sealed --jobid="$job" --overlap python3 "$PWD/try.py" 'step from outside' "$six" >>joined 2>/dev/null 3>&-
  mallory scontrol requeue "$job"
  wait_state "$job" PENDING 20
  mallory scontrol update JobId="$job" StartTime=now
  wait_for 60 "it has tried again" test -e again
  array=$(mallory sbatch --parsable -o out2 -A sealed -n1 -w n1 --array=1-2 --wrap ./s.sh 2>/dev/null)
  wait_for 60 "both elements have tried" eval '(($(grep -c "^element" tried) >= 2))'
  on_login scancel "$array"
  cat tried joined
  for way in script step multi-prog prolog epilog 'second run' 'element 1' 'element 2'; do grep -q "^$way n3 " tried; done
  grep -q '^step from outside n3 ' joined
  run ! grep -h ' reached' tried joined
  [ "$(sort -u datagrams)" = outside ]
}

@test "a job's secrets are in nothing that another user can read: processes, memory files, folders for all, Slurm's records" {
  printf '#!/bin/bash\nexec dlrun --framework=generic --learners=2 -- sleep 100\n' >s.sh
  chmod 755 s.sh
  job=$(as_user games sbatch --parsable -A lab -o "$PWD/out" -N2 --chdir="$PWD" --dl-framework=generic --dl-learners=2 --dl-gpus=1 s.sh 2>/dev/null)
  job=${job%%;*}
  wait_file "dl-$job/events.jsonl" PROCESSING 30
  sed -nE 's/.*"secret": ?"([0-9a-f]{16,})".*/\1/p' "dl-$job/control.json" >secrets
  grep -q . secrets
  # That the search finds what it looks for, where it may be read.
  mkdir -m 777 public && cp secrets public/copy
  cat >search.sh <<END
#!/bin/bash
grep -laF -f $PWD/secrets -r /proc/[0-9]*/cmdline /proc/[0-9]*/environ /dev/shm /tmp/dl-* /tmp/dlckpt* /tmp/pmix* /run/slurm-dl $PWD/public $PWD/dl-$job $PWD/out
{ scontrol show job -dd $job; scontrol show step $job; scontrol write batch_script $job -; squeue -j $job -O All; squeue -s -O All; scontrol listpids $job; } >$PWD/records 2>&1
grep -laF -f $PWD/secrets $PWD/records
exit 0
END
  chmod 755 search.sh
  for node in n1 n2; do dl_sandbox exec --node "$node" --user "$(some_user)" -- "$PWD/search.sh" 3>&- 2>/dev/null; done >found
  cat found
  grep -q "public/copy" found
  run ! grep -v "public/copy" found
}

@test "what mallory lays under the names that another's job will use in /dev/shm keeps it from nothing" {
  printf '#!/bin/bash\nfor n in 1 2; do dlrun --framework=generic --learners=1 --job-dir=dl-$SLURM_JOB_ID-$n -- sh -c "sleep 2; echo it ran" & done\nwait -n && wait -n\n' >s.sh
  chmod 755 s.sh
  uid=$(id -u games) count=0
  while IFS='^' read -r name deed; do
    [[ -n ${name// /} ]] || continue
    ((++count))
    job=$(as_user games sbatch --parsable -H -A lab -o "$PWD/out.$count" -N1 -n1 --gpus=2 --chdir="$PWD" s.sh 2>/dev/null)
    job=${job%%;*}
    book=/dev/shm/dl-job-$uid-$job
    mallory env book="$book" bash -c "$deed"
    as_user games scontrol release "$job"
    wait_state "$job" COMPLETED,FAILED,CANCELLED 60
    cat "out.$count"
    rm -rf "$book" "$book.new"
    [ "$(grep -c 'it ran' "out.$count")" = 2 ]
    run ! grep -q 'no room in /dev/shm' "out.$count"
    echo "ok $name"
  done <<'END'
    nothing                          ^ true
    a file in the list's place       ^ echo '{"start":0,"runs":[],"back":true}' >$book; chmod 666 $book
    a pipe in the list's place       ^ mkfifo -m 666 $book
    a file in the next list's place  ^ touch $book.new
    a folder in the next list's      ^ mkdir $book.new; touch $book.new/x
END
  ((count == 5))
}

@test "a borrower whose waiting jobs set their start times back without end holds up no owner, and keeps no GPUs from others" {
  start_daemon
  refuse_all 3 <<'END'
    keep other users off | sbatch -A bio --gpus=1 --exclusive=user --wrap 'sleep 600'
    keep other users off | sbatch -A bio --gpus=1 --exclusive=mcs --wrap 'sleep 600'
    keep other users off | sbatch --exclusive=user --wrap 'sleep 600'
END
  for _ in 1 2 3 4 5 6; do borrow --gpus=1 --wrap 'trap "" TERM USR1 USR2; while :; do sleep 1; done' >/dev/null; done
  wait_for 30 "all GPUs are lent" eval '[ "$(on_login squeue -h -t RUNNING -o %i | wc -l)" = 6 ]'
  for _ in {1..10}; do borrow --gpus=1 --time=1 --wrap 'sleep 50'; done >waiting
  waiting=$(paste -sd, waiting)
  printf '#!/bin/bash\nwhile [ ! -e stop ]; do scontrol update JobId=%s StartTime=now; scontrol hold %s; scontrol release %s; touch round; done >/dev/null 2>&1\n' \
    "$waiting" "$waiting" "$waiting" >back.sh
  chmod 755 back.sh
  mallory env -C "$PWD" ./back.sh &
  wait_for 20 "she is at it" test -e round
  for gpus in 2 3; do
    claim=$(as_user games sbatch --parsable -o /dev/null -A lab -N$((gpus - 1)) --gpus=$gpus --wrap 'sleep 600' 2>/dev/null)
    wait_state "${claim%%;*}" RUNNING 25 || { touch stop; return 1; }
  done
  touch stop
  wait $!
}

@test "root's dlctl answers the rarer questions, too, without reading or changing anything with root's rights" {
  job=$(borrow --gpus=1 --wrap 'sleep 600')
  wait_state "$job" RUNNING 20
  mkdir -m 700 root && echo TOPSECRET >root/secret && mkdir root/dl-1 && echo '{"time_ms":1,"attempt":1,"state":"COMPLETED"}' >root/dl-1/events.jsonl
  chmod -R go= root
  export secret=$PWD/root
  count=0
  while IFS='^' read -r name deed question; do
    [[ -n ${name// /} ]] || continue
    ((++count))
    top=$PWD/forged.$count dir=$PWD/forged.$count/dl-$job
    mallory mkdir "$top"
    forge_job_dir "$dir"
    mallory scontrol update JobId="$job" Comment="dl:PROCESSING attempt=1 dir=$dir"
    mallory env secret="$secret" dir="$dir" bash -c "cd $dir && $deed" >/dev/null 2>&1 || true
    # shellcheck disable=SC2086  # words
    bounded out "$stage/bin/dlctl" ${question//DIR/"$top"} || { echo "attack: $name"; return 1; }
    echo "$name: $(head -c 200 out | head -n 1)"
    run ! grep -qaE "TOPSECRET" out
    run ! grep -qaF $'\e' out
    [ "$(cat root/secret)" = TOPSECRET ]
    [ -e root/dl-1/events.jsonl ]
    [ -z "$(find "$top" -uid 0 -print -quit)" ] || { echo "root wrote into the user's directory: $name"; return 1; }
  done <<END
    a measurement that is a link      ^ ln -s \$secret/secret scaling.json                                    ^ scaling $job
    a measurement that is a pipe      ^ mkfifo scaling.json                                                   ^ scaling $job
    a measurement of 40 GB            ^ truncate -s 40G scaling.json                                          ^ scaling --json $job
    a measurement of brackets         ^ yes '[' | head -c 9000000 >scaling.json                               ^ scaling $job
    a report of preflight, a link     ^ ln -s \$secret/secret preflight.json                                  ^ why $job
    a plan with escapes               ^ printf '{"framework":"\\\\u001b[2J","world_size":1}' >plan.json       ^ why $job
    a request that is a link          ^ ln -s \$secret/secret request.json                                    ^ resume $job
    an old job that is a link         ^ ln -s \$secret/dl-1 ../dl-77                                           ^ clean --yes --older-than 0s DIR
    an old job full of links          ^ mkdir -p ../dl-78/logs; cp events.jsonl ../dl-78; sed -i s/PROCESSING/COMPLETED/ ../dl-78/events.jsonl; ln -s \$secret ../dl-78/logs/a; ln -s \$secret/secret ../dl-78/b ^ clean --yes --older-than 0s DIR
    a folder of jobs that is a link   ^ mv \$(dirname \$dir) \$(dirname \$dir).real; ln -s \$secret \$(dirname \$dir)  ^ clean --yes --older-than 0s DIR
    a report of a log that is a link  ^ ln -sf \$secret/secret logs/attempt-1/learner-0.log                   ^ report $job -o -
    a report of a plan that is a link ^ ln -sf \$secret/secret plan.json                                      ^ report $job -o -
    a report of 40 GB of events       ^ truncate -s 40G events.jsonl                                          ^ report $job -o -
    a report into the user's folder   ^ true                                                                  ^ report $job -o DIR/page.html
    a report over a link to root's    ^ ln -s \$secret/secret ../page.html                                    ^ report $job -o DIR/page.html
    idle jobs of its own invention    ^ scontrol update JobId=$job Comment="dl:PROCESSING idle=1@1 dir=\$secret" ^ quota
END
  ((count == 16))
}
