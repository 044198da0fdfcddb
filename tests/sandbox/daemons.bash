# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154  # the parts share their variables
# The daemons, each in the foreground of its host's namespaces, recorded under its name: munged, slurmctld, slurmd@NODE,
# slurmdbd, mariadb.

# spawn NAME HOST COMMAND…: starts a daemon on a host and records it; its output goes to log/NAME.out.
spawn() {
  local name=$1 host=$2
  shift 2
  (
    cd /
    flags=()
    # Nothing of the caller's environment: it would reach jobs.
    clean=(env -i "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root "SLURM_CONF=$SB_DIR/etc/slurm.conf"
      ${TZ:+"TZ=$TZ"} ${LD_LIBRARY_PATH:+"LD_LIBRARY_PATH=$LD_LIBRARY_PATH"})
    if [[ $SB_CGROUP == yes && $host != login ]]; then
      while read -r group; do echo "$BASHPID" >"$group/$host/cgroup.procs"; done <"$SB_DIR/cgroups"
      flags=("--cgroup=/proc/$(recorded_pid "$host")/ns/cgroup")
    fi
    close_others
    enter_host "$host" "${flags[@]+"${flags[@]}"}" setsid "${clean[@]}" "$(command -v "$1")" "${@:2}"
  ) </dev/null >>"$SB_DIR/log/$name.out" 2>&1 &
  disown # bash would report its end
  record_pid "$name" $! || die "$name did not start: $(tail -n 3 "$SB_DIR/log/$name.out")"
}
munge_works() { [[ -S $SB_DIR/munge/socket ]] && munge -S "$SB_DIR/munge/socket" -n >/dev/null 2>&1; }
controller_answers() { SLURM_CONF=$SB_DIR/etc/slurm.conf scontrol ping 2>/dev/null | grep -q "is UP"; }

# start_daemon NAME: and, for munged and the data base, waits until it answers.
start_daemon() {
  case $1 in
    munged)
      rm -f "$SB_DIR"/munge/socket*
      # One for all nodes: with munge's 2 threads, hundreds of jobs that end at once find it busy.
      spawn munged login munged --foreground --force --num-threads="$((SB_NODES > 16 ? 10 : 2))" --key-file="$SB_DIR/munge/private/key" --socket="$SB_DIR/munge/socket" \
        --pid-file="$SB_DIR/munge/private/pid" --log-file="$SB_DIR/munge/private/log" --seed-file="$SB_DIR/munge/private/seed"
      wait_until 5 munge_works || die "munged does not answer: $(tail -n 2 "$SB_DIR/log/munged.out")"
      ;;
    slurmctld) spawn slurmctld login slurmctld -D ;;
    slurmd@*) spawn "$1" "${1#slurmd@}" slurmd -D -N "${1#slurmd@}" ;;
    mariadb) start_mariadb ;;
    slurmdbd) start_slurmdbd ;;
  esac
}
daemon_names() {
  local node
  echo munged
  [[ $SB_SLURMDBD != yes ]] || printf '%s\n' mariadb slurmdbd
  echo slurmctld
  for node in $(node_names); do echo "slurmd@$node"; done
}
cmd_daemon() {
  need_running
  (($# == 2)) || usage_error "daemon: usage: dl-sandbox daemon kill|stop|start DAEMON"
  ((EUID == 0)) || die "root is needed to start and end daemons"
  grep -qxF -- "$2" < <(daemon_names) || usage_error "no daemon '$2'; allowed: $(daemon_names | paste -sd' ')"
  case $1 in
    kill) kill_recorded "$2" KILL || die "$2 did not end" ;;
    stop) kill_recorded "$2" TERM 30 || die "$2 did not end within 30 s of SIGTERM" ;;
    start)
      is_gone "$2" || die "$2 is running already"
      start_daemon "$2"
      ;;
    *) usage_error "daemon $1: unknown; allowed: kill, stop, start" ;;
  esac
}
