#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016  # lib.bash has $stage; what mallory runs expands there
# Attacks of a hostile user, and of ordinary ones who came upon them: those of a trial from outside, and others. None may
# gain GPUs that are an owner's, read or write with root's rights, or make a daemon or root's dlctl slow.
bats_require_minimum_version 1.5.0
load lib.bash
load hostile.bash

setup_file() { hostile_up; }
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() { hostile_end; }

@test "lent GPUs come back from jobs that cannot save: of any kind, whatever their users change, trap or write later" {
  start_daemon
  own=$(borrow --gpus=1 --wrap 'sleep 600')
  wait_state "$own" RUNNING 20
  plain=$(borrow --gpus=1 --wrap 'sleep 600')
  assert_contains "$(cat said)" 'borrowed.*it then goes back into the queue within 6s and begins anew'
  no_requeue=$(borrow --no-requeue --gpus=1 --wrap 'trap "" TERM USR1 USR2 HUP INT; (setsid sleep 600 &); while :; do sleep 1; done')
  assert_contains "$(cat said)" 'borrowed.*can neither save nor go back into the queue, so it is then ended within 6s'
  stubborn=$(borrow --dl-framework=generic --dl-checkpoint="$PWD/ck" --dl-gpus=1 --dl-tier=borrow \
    --wrap 'trap "" TERM USR1 USR2; while :; do sleep 1; done')
  assert_contains "$(cat said)" 'borrowed.*then asked to save, and goes back into the queue within 6s'
  forged=$(borrow --requeue --gpus=1 --wrap 'sleep 600')
  mallory srun -A bio --gpus=1 -J inter --input=none sleep 600 2>inter.err 3>&- &
  wait_for 20 "all have begun" nobody_pending
  wait_file inter.err 'ended within 6s' 10
  inter=$(on_login squeue -h -n inter -o %i)
  for job in "$plain" "$no_requeue" "$stubborn" "$forged" "$inter"; do
    wait_state "$job" RUNNING 10
    wait_for 5 "job $job is borrowed" charged_as_borrowed "$job"
  done
  # Each tries to keep what it has.
  mallory scontrol update JobId="$stubborn" Requeue=0
  mallory scontrol update JobId="$plain" Requeue=0
  mallory scontrol update JobId="$no_requeue" Requeue=1
  mallory scontrol update JobId="$forged" Comment='dl:PROCESSING attempt=1 step=999999999 dir=/'
  wait_rounds 1 # dlpolicyd has seen it
  claim=$(mallory sbatch --parsable -o /dev/null -A lab --gpus=5 --wrap 'sleep 600')
  wait_for 8 "the claim is counted" metric_is 'dl_waiting_claims 1'
  assert_contains "$(dlctl why "$claim")" "job $no_requeue of 'bio' gives 1 GPU: it can neither save nor be put back"
  assert_contains "$(dlctl quota reclaim --dry-run "$claim")" "job $plain of 'bio' gives 1 GPU: it cannot save; it is put back"
  # The grace (6 s), KillWait of those that were to save, and what the daemons take.
  wait_state "$claim" RUNNING 25
  for job in "$plain" "$stubborn" "$forged"; do
    wait_state "$job" PENDING 5
    [ "$(job_field "$job" Restarts)" = 1 ]
  done
  wait_state "$no_requeue" CANCELLED,FAILED 5
  wait_state "$inter" CANCELLED,FAILED 5
  wait_state "$own" RUNNING 1
  wait_file metrics.prom 'dl_reclaims_total\{what="put_back"\} 2' 5
  wait_file metrics.prom 'dl_reclaims_total\{what="ended"\} 2' 5
  # Prometheus' own tool has no word to say, where it is to be had.
  if promtool=$("$top_srcdir/packaging/install-promtool"); then "$promtool" check metrics <metrics.prom; fi
  # Own and claim run on; the daemon that one of them left behind does not.
  (($(own_pgrep -x sleep -u "$(some_user)" | wc -l) <= 2))
}

@test "no submission gains GPUs, licences, tiers or rights that are not its user's" {
  printf '#!/bin/bash\nsleep 60\n' >s.sh
  refuse_all 30 <<'END'
    no account                        | sbatch --gpus=1 s.sh
    account 'nobody'                  | sbatch -A nobody --gpus=1 s.sh
    account '../lab'                  | sbatch -A ../lab --gpus=1 s.sh
    account 'lab,bio'                 | sbatch -A lab,bio --gpus=1 s.sh
    account                           | sbatch -A "$(printf 'lab\nbio')" --gpus=1 s.sh
    licen                             | sbatch -A bio -L dl_lab:1 --gpus=1 s.sh
    licen                             | sbatch -L dl_lab:5 s.sh
    licen                             | sbatch -A bio -L 'matlab:1;dl_bio:9' --gpus=1 s.sh
    licen                             | sbatch -A bio -L DL_LAB:1 --gpus=1 s.sh
    GPU                               | sbatch -A bio --gpus=99 s.sh
    GPU                               | sbatch -A bio --gpus=9223372036854775807 s.sh
    .                                 | sbatch -A bio --gpus=-1 s.sh
    GPU                               | sbatch -A guarded --gpus=3 s.sh
    GPU                               | sbatch -A guarded --exclusive -N3 s.sh
    GPU                               | sbatch -A guarded --gres=gpu:1,gpu:2 s.sh
    GPU                               | sbatch -A guarded --gpus-per-task=1 -n 3 s.sh
    GPU                               | sbatch -A guarded --gpus-per-task=2 -n2 s.sh
    heterogeneous                     | sbatch -A bio --gpus=1 : --gpus=1 s.sh
    framework 'pytorch'               | sbatch -A guarded --dl-framework=pytorch --dl-gpus=1 s.sh
    image                             | sbatch -A guarded --dl-image=/tmp/x.sif --dl-gpus=1 s.sh
    image                             | sbatch -A guarded --dl-image=/images/../tmp/x.sif --dl-gpus=1 s.sh
    image                             | sbatch -A guarded --dl-image=/images/a/b.sif --dl-gpus=1 s.sh
    dl-framework                      | sbatch -A bio --dl-framework=../../etc/x --dl-gpus=1 s.sh
    dl-learners                       | sbatch -A bio --dl-learners=99999999999999999999 --dl-gpus=1 s.sh
    dl-learners                       | sbatch -A bio --dl-learners=nan --dl-gpus=1 s.sh
    dl-gpus                           | sbatch -A bio --dl-gpus=1e3 s.sh
    dl-checkpoint                     | sbatch -A bio --dl-gpus=1 --dl-checkpoint= s.sh
    --no-requeue conflicts            | sbatch -A bio --dl-gpus=1 --no-requeue --dl-checkpoint=ck s.sh
    dl-tier                           | sbatch -A bio --dl-gpus=1 --dl-tier=owner s.sh
    guaranteed                        | sbatch -A bio --dl-tier=guaranteed --dl-gpus=2 s.sh
    dl-learners                       | env SLURM_SPANK__SLURM_SPANK_OPTION_dl_dl_learners=x sbatch -A bio --dl-gpus=1 s.sh
    dl-tier                           | env SLURM_SPANK__SLURM_SPANK_OPTION_dl_dl_tier=root sbatch -A bio --gpus=1 s.sh
    .                                 | sbatch -A bio --gpus=1 --uid=root s.sh
    .                                 | sbatch -A bio --gpus=1 --admin-comment='dl:1 tenant=lab' s.sh
END
}

@test "no change of a job gains GPUs, licences, tiers or time that were not promised at submission" {
  job=$(borrow --time=10 --gpus=1 --wrap 'sleep 600')
  held=$(borrow --hold --gpus=2 --wrap 'sleep 600')
  wait_state "$job" RUNNING 20
  label=$(job_field "$job" AdminComment) waiting=$(job_field "$held" AdminComment)
  refuse_all 20 <<END
    enied     | scontrol update JobId=$held Licenses=
    enied     | scontrol update JobId=$held Licenses=dl_lab:2
    enied     | scontrol update JobId=$job Licenses=dl_lab:1
    enied     | scontrol update JobId=$held Account=lab
    .         | scontrol update JobId=$job Account=lab
    enied     | scontrol update JobId=$held AdminComment='dl:1 tenant=lab'
    enied     | scontrol update JobId=$job AdminComment=
    enied     | scontrol update JobId=$held NumNodes=3
    .         | scontrol update JobId=$job NumNodes=2
    enied     | scontrol update JobId=$held NumTasks=6
    enied     | scontrol update JobId=$held Gres=gpu:2
    enied     | scontrol update JobId=$held TresPerJob=gres:gpu:6
    enied     | scontrol update JobId=$held TresPerNode=gres:gpu:2
    enied     | scontrol update JobId=$held TresPerTask=gres:gpu:2
    enied     | scontrol update JobId=$held Partition=batch
    .         | scontrol update JobId=$held QOS=normal
    .         | scontrol update JobId=$held Priority=999999999
    .         | scontrol update JobId=$held SiteFactor=100000
    .         | scontrol update JobId=$job TimeLimit=20
    .         | scontrol update JobId=$held Nice=-10000
    enied     | scontrol update JobId=$held Shared=0
    .         | scontrol update JobId=$held UserID=root
    .         | scontrol suspend $job
    .         | scontrol reconfigure
    .         | scontrol setdebug debug5
    .         | scontrol update NodeName=n1 State=DRAIN Reason=x
    .         | scontrol create reservation StartTime=now Duration=60 Users=root Nodes=ALL
END
  [ "$(job_field "$job" AdminComment)" = "$label" ]
  [ "$(job_field "$held" AdminComment)" = "$waiting" ]
}

@test "root's dlctl reads, writes and obeys nothing that a user has put into a job directory" {
  job=$(borrow --gpus=1 --wrap 'sleep 600')
  wait_state "$job" RUNNING 20
  # What root alone may read, laid out as a job directory, too.
  mkdir -p root/logs/attempt-1 && chmod 700 root
  echo TOPSECRET >root/secret && cp root/secret root/logs/attempt-1/learner-0.log && chmod 600 root/secret root/logs/attempt-1/*
  export secret=$PWD/root
  count=0
  # name ^ what mallory does in the forged directory ^ what root asks of dlctl
  while IFS='^' read -r name deed question; do
    [[ -n ${name// /} && $name != *'#'* ]] || continue
    ((++count))
    dir=$PWD/forged.$count
    forge_job_dir "$dir"
    mallory scontrol update JobId="$job" Comment="dl:PROCESSING attempt=1 dir=$dir"
    mallory env secret="$secret" job="$job" dir="$dir" bash -c "cd $dir && $deed" >/dev/null 2>&1 || true
    # shellcheck disable=SC2086  # words
    bounded out "$stage/bin/dlctl" ${question/DIR/"$dir"} || { echo "attack: $name"; return 1; }
    # Else all that follows would be no more than a dlctl that answers nothing.
    [[ $name != *'nothing strange'* ]] || grep -q good out || { echo 'it does not print a good log'; cat out; return 1; }
    if grep -qa TOPSECRET out || [ "$(cat root/secret)" != TOPSECRET ]; then
      printf 'root read or wrote with its own rights: %s\n' "$name"
      cat out
      return 1
    fi
    [ -z "$(find "$dir" -uid 0 -print -quit)" ] || { echo "root wrote into the user's directory: $name"; find "$dir" -uid 0; return 1; }
    echo "ok $name: $(head -c 150 out | head -n 1)"
  done <<END
    nothing strange               ^ true                                                                   ^ logs $job
    a log that is a link          ^ ln -sf \$secret/secret logs/attempt-1/learner-0.log                    ^ logs $job
    a log that is a link, -n      ^ ln -sf \$secret/secret logs/attempt-1/learner-0.log                    ^ logs -n 3 $job
    an attempt that is a link     ^ rm -r logs/attempt-1; ln -s \$secret/logs/attempt-1 logs/attempt-1     ^ logs $job
    logs that are a link          ^ rm -r logs; ln -s \$secret/logs logs                                   ^ logs $job
    a comment with root's folder  ^ scontrol update JobId=\$job Comment="dl:PROCESSING attempt=1 dir=\$secret" ^ logs $job
    the same asked for by dir     ^ rm -r logs; ln -s \$secret/logs logs                                   ^ logs $job --dir DIR
    a hard link                   ^ rm logs/attempt-1/*; ln \$secret/secret logs/attempt-1/learner-0.log   ^ logs $job
    a log that is a pipe          ^ rm logs/attempt-1/*; mkfifo logs/attempt-1/learner-0.log               ^ logs $job
    a log that is a device        ^ ln -sf /dev/zero logs/attempt-1/learner-0.log                          ^ logs $job
    a log of 40 GB                ^ truncate -s 40G logs/attempt-1/learner-0.log                           ^ logs -n 1 $job
    a history that is a link      ^ ln -sf \$secret/secret events.jsonl                                    ^ status $job
    a history that is a pipe      ^ rm events.jsonl; mkfifo events.jsonl                                   ^ status $job
    a history of 40 GB            ^ truncate -s 40G events.jsonl                                           ^ status $job
    a history of small events     ^ for i in {1..16}; do head -c 1000000 /dev/zero | tr '\\0' '\\n' >>events.jsonl; done; yes "\$(head -n 1 events.jsonl)" | head -c 80000000 >>events.jsonl ^ status $job
    a plan that is a link         ^ ln -sf \$secret/secret plan.json                                       ^ status $job
    a plan of endless zeros       ^ ln -sf /dev/zero plan.json                                             ^ status $job
    a plan of brackets            ^ yes '[' | head -c 90000000 >plan.json                                 ^ status --json $job
    a plan of empty lists         ^ (echo '['; yes '[],' | head -c 90000000) >plan.json                   ^ status $job
    a control file that is a link ^ ln -s \$secret/secret control.json                                     ^ status $job
    a control file that is a pipe ^ mkfifo control.json                                                    ^ status $job
    a folder in a file's place    ^ rm events.jsonl; mkdir events.jsonl plan.json.d                        ^ status $job
    a request that is a link      ^ ln -s \$secret/secret request.json                                     ^ pause --force --no-wait $job
    a request that is a folder    ^ mkdir request.json                                                     ^ pause --force --no-wait $job
    a directory that is a link    ^ mv \$dir \$dir.real; ln -s \$secret \$dir                                ^ logs $job
    a directory that is closed    ^ chmod 000 .                                                            ^ status $job
    a directory that is gone      ^ rm -r \$dir                                                             ^ status $job
    all jobs                      ^ truncate -s 40G events.jsonl                                           ^ status --all
    all jobs, for programs        ^ ln -sf \$secret/secret plan.json                                       ^ status --all --json
END
  echo "$count attacks"
  ((count >= 29))
}

@test "root's dlctl connects only to where Slurm says that the job runs, and a terminal shows no command of a log's" {
  job=$(borrow --gpus=1 --nodelist=n2 --wrap 'sleep 600')
  wait_state "$job" RUNNING 20
  forge_job_dir "$PWD/forged"
  mallory scontrol update JobId="$job" Comment="dl:PROCESSING attempt=1 dir=$PWD/forged"
  # A listener on the login host, which mallory names as where dlrun is.
  cat >listen.py <<'END'
import socket, sys
s = socket.socket()
s.bind(("0.0.0.0", 0))
s.listen()
print(s.getsockname()[1], flush=True)
s.settimeout(30)
c, _ = s.accept()
print("CONNECTED", flush=True)
END
  listen_on login timeout 40 python3 "$PWD/listen.py" >listener
  wait_file listener '^[0-9]+$' 10
  port=$(head -n 1 listener)
  for host in 127.0.0.1 login localhost ::1; do
    mallory bash -c "echo '{\"host\":\"$host\",\"port\":$port,\"secret\":\"00000000000000000000000000000000\",\"node\":\"n2\",\"pid\":1}' >'$PWD/forged/control.json'"
    dlctl status "$job" >/dev/null
    dlctl pause --force --no-wait "$job" >/dev/null 2>&1 || true
  done
  # Another port: one that mail or ssh would have.
  mallory bash -c "echo '{\"host\":\"n2\",\"port\":22,\"secret\":\"00\",\"node\":\"n2\",\"pid\":1}' >'$PWD/forged/control.json'"
  dlctl status "$job" >/dev/null
  run ! grep -q CONNECTED listener
  # Written with its user's rights, not with root's.
  [ "$(stat -c %U forged/request.json)" = "$(some_user)" ]
  mallory bash -c "printf 'a\\033[2J\\033]0;owned\\007\\033[31mred\\033[0m\\302\\2332J\\n' >'$PWD/forged/logs/attempt-1/learner-0.log'"
  on_login script -qc "$stage/bin/dlctl logs $job" /dev/null >seen </dev/null
  assert_contains "$(cat seen)" 'a\\x1b\[2J\\x1b\]0;owned\\x07'
  assert_contains "$(cat -v seen)" '\^\[\[31mred\^\[\[0m\\x9b2J'
  dlctl logs "$job" >piped
  cmp piped forged/logs/attempt-1/learner-0.log
}

@test "what a job's environment says of its request is what sbatch announced" {
  printf '#!/bin/bash\nenv | grep ^DL_ | sort >%s/env.$SLURM_JOB_ID\n' "$PWD" >s.sh
  printf 'DL_LEARNERS=99\0DL_GPUS=7\0DL_TIER=guaranteed\0DL_CHECKPOINT=/etc\0PATH=%s\0' "$PATH" >file
  chmod 644 file s.sh
  # --export-file is 22.05's; --export of all versions.
  local -a export=(--export="ALL,DL_LEARNERS=99,DL_GPUS=7,DL_TIER=guaranteed,DL_CHECKPOINT=/etc")
  slurm_at_least 23.11 || export=(--export-file="$PWD/file")
  job=$(borrow "${export[@]}" --dl-framework=generic --dl-learners=1 --dl-gpus=1 s.sh)
  wait_file "env.$job" DL_LEARNERS 20
  assert_contains "$(cat "env.$job")" '^DL_LEARNERS=1$'
  assert_contains "$(cat "env.$job")" '^DL_GPUS=1$'
  run ! grep -qE '^(DL_TIER|DL_CHECKPOINT)=.' "env.$job"
}

@test "a job directory is its user's alone, and dlrun closes connections that say nothing" {
  printf '#!/bin/bash\numask 0\ndlrun -- sleep 60\n' >s.sh
  chmod 755 s.sh
  job=$(borrow --dl-framework=generic --dl-learners=1 --dl-gpus=1 s.sh)
  wait_file "dl-$job/events.jsonl" PROCESSING 20
  [ "$(stat -c '%a %U' "dl-$job")" = "700 $(some_user)" ]
  run -4 as_user games "$stage/bin/dlctl" logs "$job"
  assert_contains "$output" "is for its user alone"
  assert_contains "$(dlctl logs "$job" 2>&1; dlctl status "$job")" PROCESSING
  host=$(job_field "$job" BatchHost) port=$(sed -nE 's/.*"port": ([0-9]+).*/\1/p' "dl-$job/control.json")
  cat >idle.py <<'END'
import socket, sys, time
host, port = sys.argv[1], int(sys.argv[2])
idle = [socket.create_connection((host, port), 5) for _ in range(400)]
idle[399].sendall(b'{"type":"hel')  # begins to speak and does not go on
open_ones = lambda: sum(1 for s in idle if s.fileno() >= 0)
def sweep():
    for s in idle:
        if s.fileno() < 0: continue
        s.setblocking(False)
        try:
            if s.recv(100) == b"": s.close()
        except BlockingIOError: pass
        except OSError: s.close()
time.sleep(1); sweep()
print("after 1 s", open_ones(), flush=True)
end = time.time() + 15
while open_ones() and time.time() < end: time.sleep(0.2); sweep()
print("in the end", open_ones(), flush=True)
END
  on_login python3 "$PWD/idle.py" "$host" "$port" >idle
  cat idle
  (($(sed -n 's/after 1 s //p' idle) <= 256 + 2)) # and as many as the job has learners and nodes
  grep -qx 'in the end 0' idle
  assert_contains "$(dlctl status "$job")" PROCESSING
}

# What one job reaches: a listener on each host, and a client in a job that tries them all.
# bats test_tags=versions
@test "a job of a tenant with network = \"job\" reaches its own nodes and what the site lists, and nothing else, both ways" {
  on_node n1 test -d /sys/fs/cgroup/unified || skip "this sandbox has cgroups of version 2 only beside version 1"
  on_node n1 bash -c 'command -v nft' >/dev/null || skip "needs the program nft"
  cat >serve.py <<'END'
import socket, sys, threading
s = socket.create_server(("", int(sys.argv[1])), reuse_port=True)
while True: s.accept()[0].close()
END
  cat >try.py <<'END'
import os, socket, sys
for host in sys.argv[2:]:
    try:
        socket.create_connection((host, int(sys.argv[1])), 2).close()
        print(host, "reached")
    except OSError as e:
        print(host, "not reached")
END
  cat >s.sh <<'END'
#!/bin/bash
python3 serve.py $OWN & # on the first node, outside any step of srun
srun --overlap -N2 -n2 python3 -c 'import os,subprocess,time
if os.environ["SLURM_PROCID"] == "1":
    subprocess.Popen(["python3", "serve.py", os.environ["OWN"]])
time.sleep(8)' &
for ((i = 0; i < 40; i++)); do sleep 0.1; python3 try.py $OWN n2 | grep -q "^n2 reached" && break; done # until its listener is there
{ python3 try.py $OWN n1 n2; python3 try.py 7777 n3 login; } >tried.$SLURM_JOB_ID 2>&1
srun --overlap -N1 -n1 bash -c "python3 try.py $OWN n1 n2; python3 try.py 7777 n3 login" >stepped.$SLURM_JOB_ID 2>&1
# A user may not leave it, whatever he starts.
(setsid python3 try.py 7777 n3 >daemon.$SLURM_JOB_ID 2>&1)
for list in $(find /sys/fs/cgroup/unified -maxdepth 2 -name cgroup.procs); do echo $$ >$list; done 2>/dev/null
python3 try.py 7777 n3 login >left.$SLURM_JOB_ID 2>&1
dlrun --framework=generic --learners=2 -- bash -c 'echo learner $DL_RANK' >dlrun.$SLURM_JOB_ID 2>&1
touch ready.$SLURM_JOB_ID
sleep 30
END
  chmod 755 s.sh
  for host in n3 login; do listen_on "$host" python3 "$PWD/serve.py" 7777; done
  open=$(mallory env OWN=7001 sbatch --parsable -o open.out -A bio -N2 -w n1,n2 --wrap './s.sh' 2>/dev/null)
  sealed=$(mallory env OWN=7002 sbatch --parsable -o sealed.out -A sealed -N2 -w n1,n2 --overcommit --wrap './s.sh' 2>/dev/null)
  wait_for 40 "the open job has tried" test -e "ready.$open"
  wait_for 40 "the sealed job has tried" test -e "ready.$sealed"
  # From outside, while both have a listener on n1.
  [ "$(on_node n3 python3 "$PWD/try.py" 7001 n1)" = 'n1 reached' ]
  [ "$(on_node n3 python3 "$PWD/try.py" 7002 n1)" = 'n1 not reached' ]
  head -50 ./*."$open" ./*."$sealed" open.out sealed.out
  for how in tried stepped; do
    assert_contains "$(cat $how."$open")" 'n3 reached'
    assert_contains "$(cat $how."$sealed")" 'n1 reached'
    assert_contains "$(cat $how."$sealed")" 'n2 reached'
    assert_contains "$(cat $how."$sealed")" 'n3 not reached'
  done
  # The controller's host is where srun has to get to.
  assert_contains "$(cat "tried.$sealed")" 'login reached'
  assert_contains "$(cat "daemon.$sealed")" 'n3 not reached'
  assert_contains "$(cat "left.$sealed")" 'n3 not reached'
  assert_contains "$(cat "dlrun.$sealed")" 'learner 1'
  on_login scancel "$open" "$sealed"
  wait_nodes idle 30
  run ! grep slurm_dl < <(on_node n1 nft list tables)
  [ -z "$(find /run/slurm-dl -name "network.$(on_node n1 stat -L -c %i /proc/self/ns/net).job_*")" ]
}

@test "where the nodes cannot keep a job to itself, it is refused at submission, or its tasks do not start: never ignored" {
  on_node n1 test -d /sys/fs/cgroup/unified || skip "this sandbox has cgroups of version 2 only beside version 1"
  toml=$DL_SANDBOX_DIR/etc/dl.toml
  cp "$toml" kept
  sed -i 's/^names = .*/names = []/; s/^enforce = .*/enforce = "off"/' "$toml"
  on_login scontrol reconfigure
  refuse_all 3 <<'END'
    network = "job" | sbatch -A sealed --gpus=1 --wrap 'sleep 1'
    network = "job" | sbatch -A sealed --wrap 'sleep 1'
    network = "job" | srun -A sealed true
END
  cp kept "$toml"
  on_login scontrol reconfigure
  sleep 1 # job_submit looks at dl.toml once a second
  # On the node nft fails after all.
  on_node n1 mount --bind /bin/false /usr/sbin/nft
  job=$(mallory sbatch --parsable -o out -A sealed -w n1 --wrap 'echo ran' 2>/dev/null)
  wait_state "$job" FAILED,CANCELLED 20
  on_node n1 umount /usr/sbin/nft
  run ! grep -q ran out
  assert_contains "$(cat out "$DL_SANDBOX_DIR"/log/*n1*)" 'requires network = "job", which this node cannot keep: nft refuses the rules'
  [ -z "$(on_login sinfo -h -N -t drain,down -o %N)" ]
  # What a user says himself does not count.
  job=$(mallory env SPANK_DL_NETWORK=any DL_NETWORK=any sbatch --parsable -o out2 -A sealed --export=ALL,DL_NETWORK=any --wrap 'grep -c slurm-dl /proc/self/cgroup' 2>/dev/null)
  wait_state "$job" COMPLETED 20
  assert_contains "$(cat out2)" '^1$'
}

@test "a tenant that is removed: what it has queued is held, what runs is shown, and all goes on when it is back" {
  toml=$DL_SANDBOX_DIR/etc/dl.toml conf=$DL_SANDBOX_DIR/etc/slurm.conf
  start_daemon
  running=$(mallory sbatch --parsable -o /dev/null -A guarded --gpus=1 --wrap 'sleep 600' 2>/dev/null)
  wait_state "$running" RUNNING 20
  queued=$(mallory sbatch --parsable -o /dev/null -A guarded --dl-tier=guaranteed --dl-framework=generic --dl-gpus=1 --wrap 'sleep 600' 2>/dev/null)
  cp "$toml" toml.kept && cp "$conf" conf.kept
  sed -i '/^\[tenants.guarded\]/,/^images/d' "$toml"
  kill -HUP "$(cat daemon.pid)"
  wait_for 10 "job $queued is held" grep -qE "job $queued: hold" daemon.log
  sed -i 's/,dl_guarded:1//' "$conf"
  on_login scontrol reconfigure
  sleep 2 # the scheduler does not start it
  wait_state "$queued" PENDING 2
  assert_contains "$(dlctl quota)" "guarded"
  wait_file metrics.prom '^dl_uncharged_gpus\{tenant="guarded"\} 1$' 5
  cp conf.kept "$conf" && cp toml.kept "$toml"
  on_login scontrol reconfigure
  kill -HUP "$(cat daemon.pid)"
  on_login scancel "$running"
  wait_state "$queued" RUNNING 30
  assert_contains "$(job_field "$queued" Licenses)" 'dl_guarded:1'
}
