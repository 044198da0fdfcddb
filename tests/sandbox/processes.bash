# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154  # the parts share their variables
# Which processes are ours, and how they end.
#
# A process that we start is recorded in $SB_DIR/run/NAME.pid as "PID STARTTIME": a number that was given to another process
# since then has another start time, and is left alone. Whatever those processes start (jobs, shells) is found by its
# network namespace, which carries our mark: the alias of its loopback interface (see network.bash).

# pid_start PID: the process's start time in clock ticks since boot; nothing when there is no such process, or a dead one.
pid_start() {
  local stat='' fields
  { IFS='' read -r -d '' stat <"/proc/$1/stat"; } 2>/dev/null
  [[ -n $stat ]] || return 1
  read -ra fields <<<"${stat##*) }"
  [[ ${fields[0]} != Z && ${fields[0]} != X ]] || return 1
  echo "${fields[19]}"
}
# record_pid NAME PID
record_pid() {
  local start
  start=$(pid_start "$2") || return 1
  echo "$2 $start" >"$SB_DIR/run/$1.pid"
}
# recorded_pid NAME: the number, if that process still lives.
recorded_pid() {
  local pid start now
  { read -r pid start <"$SB_DIR/run/$1.pid"; } 2>/dev/null || return 1
  [[ $pid =~ ^[0-9]+$ ]] && now=$(pid_start "$pid") && [[ $now == "$start" ]] && echo "$pid"
}
is_gone() { ! recorded_pid "$1" >/dev/null; }
holder_alive() { [[ ${SB_BOOT:-} == "$(</proc/sys/kernel/random/boot_id)" ]] && recorded_pid "$1" >/dev/null; }

# kill_recorded NAME SIGNAL [SECONDS]: and waits until it is gone. True if it is.
kill_recorded() {
  local pid
  pid=$(recorded_pid "$1") || return 0
  kill -s "$2" "$pid" 2>/dev/null
  wait_until "${3:-10}" is_gone "$1"
}

# Lines "INODE PID…", one for each network namespace on this machine. (To search /proc for them would look into thousands of other folders.)
network_namespaces() {
  find /proc/[0-9]*/ns/net -maxdepth 0 -printf '%l %h\n' 2>/dev/null | awk '
    { split($2, part, "/"); pids[$1] = pids[$1] " " part[3] }
    END { for (ns in pids) print ns pids[ns] }'
}
# namespace_mark PID: the mark "dl-sandbox ID DIR" of the network namespace that the process is in.
namespace_mark() {
  nsenter --net="/proc/$1/ns/net" ip -o link show dev lo 2>/dev/null | sed -n 's/.*alias \(dl-sandbox [^\\ ]* [^\\ ]*\).*/\1/p' | head -n 1
}
# our_processes: lines "ID PID" of all processes in namespaces marked with $SB_DIR, save this program and its ancestors (it may run inside).
our_processes() {
  local line pid mark='' spare=" " up=$BASHPID
  while [[ $up -gt 1 ]]; do
    spare+="$up "
    up=$(awk '$1 == "PPid:" { print $2 }' "/proc/$up/status" 2>/dev/null) || break
  done
  while read -ra line; do
    mark=
    for pid in "${line[@]:1}"; do
      mark=$(namespace_mark "$pid") && [[ -e /proc/$pid ]] && break
    done
    [[ $mark == "dl-sandbox "*" $SB_DIR" ]] || continue
    for pid in "${line[@]:1}"; do
      # A zombie is dead already, and its parent's to reap.
      [[ $spare == *" $pid "* ]] || ! pid_start "$pid" >/dev/null || echo "$(cut -d' ' -f2 <<<"$mark") $pid"
    done
  done < <(network_namespaces)
}
# kill_ours: SIGKILL until nothing of ours is left; a job may fork meanwhile, so it looks again. True if all are gone.
kill_ours() {
  local round pids name
  for name in "$SB_DIR"/run/*.pid; do
    name=${name##*/}
    kill_recorded "${name%.pid}" KILL 0
  done
  for ((round = 0; round < 100; round++)); do
    mapfile -t pids < <(our_processes | cut -d" " -f2; cgroup_pids)
    ((${#pids[@]})) || return 0
    kill -s KILL "${pids[@]}" 2>/dev/null
    sleep 0.05
  done
  say "still running after SIGKILL: ${pids[*]}"
  return 1
}
