# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154  # the parts share their variables
# The hosts: a host is a set of namespaces, held by one sleeping process recorded as NAME (login, n1, n2, …).

# start_host NAME: in the background; wait_host waits for it.
start_host() {
  local name=$1 dir
  local -a flags=(--net --mount --uts --ipc --propagation slave) hierarchies=() groups=()
  if [[ $SB_CGROUP == yes && $name != login ]]; then
    mapfile -t groups < <(make_cgroups "$name")
    flags+=(--cgroup)
    # shellcheck disable=SC2206
    hierarchies=($kCgroupHierarchies)
  fi
  rm -f "$SB_DIR/run/$name.state"
  (
    for dir in "${groups[@]+"${groups[@]}"}"; do echo $BASHPID >"$dir/cgroup.procs" || exit 1; done
    close_others
    exec setsid unshare "${flags[@]}" "$BASH" "$parts/node_init.bash" "$SB_DIR" "$name" "${hierarchies[@]+"${hierarchies[@]}"}"
  ) </dev/null >"$SB_DIR/log/$name.log" 2>&1 &
  disown # bash would report its end
  record_pid "$name" $! || die "the host $name could not be started; see $SB_DIR/log/$name.log"
}
host_settled() { [[ -s $SB_DIR/run/$1.state ]] || is_gone "$1"; }
wait_host() {
  local state
  wait_until 10 host_settled "$1"
  { state=$(<"$SB_DIR/run/$1.state"); } 2>/dev/null
  [[ ${state:-} == ready ]] || die "host $1: ${state:-its namespaces could not be made}; see $SB_DIR/log/$1.log"
}

# enter_host NAME COMMAND…: in all namespaces of the host but its cgroup one. Replaces this process.
enter_host() {
  local pid
  pid=$(recorded_pid "$1") || die "the host $1 is not running"
  shift
  exec nsenter --net="/proc/$pid/ns/net" --uts="/proc/$pid/ns/uts" --ipc="/proc/$pid/ns/ipc" --mount="/proc/$pid/ns/mnt" "$@"
}

# fake_gpus: device nodes for nodes that have more GPUs than this machine. Sets SB_GPU_KIND (real, fake, none).
choose_gpus() {
  local -a real=(/dev/nvidia[0-9] /dev/nvidia[0-9][0-9])
  if ((SB_GPUS == 0)); then
    SB_GPU_KIND=none
  elif ((${#real[@]} >= SB_GPUS * SB_NODES)); then
    SB_GPU_KIND=real
  else
    SB_GPU_KIND=fake
    local i
    mkdir "$SB_DIR/dev" || return 1
    for ((i = 0; i < SB_GPUS; i++)); do
      # /dev/null's twin; where devices may not be made, a link to it serves as well.
      mknod -m 666 "$SB_DIR/dev/gpu$i" c 1 3 2>/dev/null || ln -s /dev/null "$SB_DIR/dev/gpu$i" || return 1
    done
  fi
}

# environment_lines: what a command needs to talk to this cluster.
environment_lines() {
  printf '%s=%q\n' SLURM_CONF "$SB_DIR/etc/slurm.conf" DL_SANDBOX_DIR "$SB_DIR"
  [[ -z $SB_BIN || :$PATH: == *:$SB_BIN:* ]] || printf 'PATH=%q\n' "$SB_BIN:$PATH"
}
cmd_env() {
  need_sandbox
  environment_lines | sed 's/^/export /'
}

# run_as HOST USER COMMAND…: with the cluster's environment, in the current folder. Replaces this process.
run_as() {
  local host=$1 user=$2 line home
  shift 2
  local -a as=()
  while read -r line; do eval "export $line"; done < <(environment_lines)
  if ((EUID != 0)); then
    [[ -z $user || $user == "$(id -un)" ]] || die "--user=$user: root is needed to become another user"
    [[ $host == login ]] || die "root is needed to enter node $host"
    exec "$@" # no right to enter the login host: from outside the cluster answers as well
  fi
  if [[ -n $user && $user != root ]]; then
    id "$user" >/dev/null 2>&1 || usage_error "--user=$user: there is no such user on this machine"
    home=$(getent passwd "$user" | cut -d: -f6)
    know_user "$user"
    export HOME=$home USER=$user LOGNAME=$user
    as=(setpriv --reuid "$(id -u "$user")" --regid "$(id -g "$user")" --init-groups --)
  fi
  # shellcheck disable=SC2016
  enter_host "$host" "${as[@]+"${as[@]}"}" /bin/bash -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" "$@"
}
cmd_exec() {
  local user='' host=login
  while (($#)); do
    case $1 in
      --user) user=$2 && shift 2 ;;
      --user=*) user=${1#*=} && shift ;;
      --node) host=$2 && shift 2 ;;
      --node=*) host=${1#*=} && shift ;;
      --) shift && break ;;
      *) break ;;
    esac
  done
  (($#)) || usage_error "exec: a command is needed"
  need_running
  [[ $host == login ]] || check_node "$host"
  run_as "$host" "$user" "$@"
}
cmd_shell() {
  (($# == 0)) || usage_error "shell: takes no argument; a command is run by: dl-sandbox exec COMMAND…"
  need_running
  say "a shell on the login host of '$SB_NAME': sinfo, sbatch, srun work here; leave it with exit"
  run_as login '' "${SHELL:-/bin/bash}"
}
