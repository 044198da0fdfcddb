# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154  # the parts share their variables
# up and down.

# lock_sandbox: one `up` or `down` at a time on a folder; ends with this process (daemons close descriptor 9).
lock_sandbox() {
  exec 9<"$SB_DIR" || die "$SB_DIR cannot be read"
  flock -w 60 9 || die "another dl-sandbox has been at work on $SB_DIR for a minute"
}

read_up_options() {
  SB_NODES=4 SB_GPUS=2 SB_GPU_TYPE='' SB_CPUS=4 SB_SLURMDBD=no SB_GRACE=20 SB_PLUGINS='' SB_BIN=''
  opt_cgroup='' opt_toml='' opt_conf=() opt_prefix=''
  local flag
  while (($#)); do
    if [[ $1 == --*=* ]]; then
      flag=${1%%=*}
      set -- "$flag" "${1#*=}" "${@:2}"
    fi
    case $1 in
      --nodes | --gpus-per-node | --gpu-type | --cpus-per-node | --grace | --prefix | --plugins | --dl-toml | --conf) need_value "$@" ;;
    esac
    case $1 in
      --nodes) check_count --nodes "$2" 1 200; SB_NODES=$((10#$2)); shift ;;
      --gpus-per-node) check_count --gpus-per-node "$2" 0 64; SB_GPUS=$((10#$2)); shift ;;
      --cpus-per-node) check_count --cpus-per-node "$2" 1 1024; SB_CPUS=$((10#$2)); shift ;;
      --grace) check_count --grace "$2" 0 86400; SB_GRACE=$((10#$2)); shift ;;
      --gpu-type)
        [[ $2 =~ ^[a-z][a-z0-9_]{0,30}$ ]] || usage_error "--gpu-type=$2: lower-case letters, digits and _, a letter first, are allowed"
        SB_GPU_TYPE=$2
        shift
        ;;
      --prefix) opt_prefix=$2; shift ;;
      --plugins)
        [[ -d $2 ]] || usage_error "--plugins=$2: no such folder"
        SB_PLUGINS=$(readlink -f "$2")
        shift
        ;;
      --dl-toml)
        [[ -f $2 && -r $2 ]] || usage_error "--dl-toml=$2: no such file"
        opt_toml=$2
        shift
        ;;
      --conf)
        [[ $2 =~ ^[A-Za-z]+= ]] || usage_error "--conf=$2: KEY=VALUE of slurm.conf is allowed"
        opt_conf+=("$2")
        shift
        ;;
      --slurmdbd) SB_SLURMDBD=yes ;;
      --cgroup) opt_cgroup=yes ;;
      --no-cgroup) opt_cgroup=no ;;
      *) usage_error "up: unknown option '$1'; see dl-sandbox --help" ;;
    esac
    shift
  done
}
# find_plugins: an installed dl-sandbox brings its own prefix.
find_plugins() {
  local dir
  [[ -z $opt_prefix || -d $opt_prefix ]] || usage_error "--prefix=$opt_prefix: no such folder"
  [[ -n $opt_prefix || $here != */bin ]] || opt_prefix=$here/..
  if [[ -n $opt_prefix ]]; then
    opt_prefix=$(readlink -f "$opt_prefix")
    SB_BIN=$opt_prefix/bin
    for dir in "$opt_prefix"/lib/slurm "$opt_prefix"/lib64/slurm "$opt_prefix"/lib/*/slurm "$opt_prefix"/lib/*/slurm-wlm; do
      [[ -n $SB_PLUGINS || ! -e $dir/spank_dl.so ]] || SB_PLUGINS=$dir
    done
  elif [[ -n $SB_PLUGINS && -x $SB_PLUGINS/../../bin/dlrun ]]; then
    SB_BIN=$(readlink -f "$SB_PLUGINS/../../bin")
  fi
}

# make_folder: $SB_DIR, which must be new, empty, or a dead sandbox (whose remains are removed first).
make_folder() {
  if [[ -e $SB_DIR ]]; then
    [[ -d $SB_DIR && ! -L $SB_DIR ]] || die "$SB_DIR is not a folder"
    lock_sandbox
    if load_settings; then
      holder_alive login && [[ ${SB_STARTED:-} == yes ]] && die "a sandbox is running in $SB_DIR; end it with: dl-sandbox down"
      say "removing what is left of an earlier sandbox in $SB_DIR"
      tear_down || die "the earlier sandbox in $SB_DIR could not be removed"
    elif [[ -n $(ls -A "$SB_DIR") ]]; then
      die "$SB_DIR is not empty and not a sandbox; name another folder with --dir"
    fi
  fi
  (umask 022 && mkdir -p "$SB_DIR") || die "$SB_DIR cannot be made"
  [[ $(stat -c %u "$SB_DIR") == 0 ]] || die "$SB_DIR belongs to another user; name another folder with --dir"
  lock_sandbox
  : >"$SB_DIR/settings" # from here on, down knows it for a sandbox
}

up_failed() {
  trap - EXIT
  say "bringing it up failed; the logs are kept in $SB_DIR/log until the next up or down"
  kill_ours
  remove_cgroups <"$(cgroup_list)"
}
nodes_idle() {
  local count
  count=$(SLURM_CONF=$SB_DIR/etc/slurm.conf sinfo -h -N -p "$(first_partition)" -t idle -o %N 2>/dev/null | sort -u | wc -l)
  ((count == SB_NODES))
}
first_partition() { echo batch; }

cmd_up() {
  local began=${EPOCHREALTIME/[.,]/} tenths node database=''
  read_up_options "$@"
  find_plugins
  check_machine
  choose_cgroup "$opt_cgroup"
  umask 022
  # The folder may hold an older sandbox with other settings: ours are kept aside while those are loaded.
  local mine key
  mine=$(for key in $kSettings; do printf '%s=%q\n' "$key" "${!key:-}"; done)
  make_folder
  eval "$mine"
  SB_ID=$(od -An -N4 -tx4 /dev/urandom | tr -d ' ') SB_BOOT=$(</proc/sys/kernel/random/boot_id) SB_STARTED=no
  trap up_failed EXIT
  { mkdir -p "$SB_DIR"/{etc,run,log,state,munge,nodes} && mkdir -m 700 "$SB_DIR/munge/private"; } || die "$SB_DIR cannot be written to"
  for node in $(node_names); do mkdir -p "$SB_DIR/nodes/$node/spool" && mkdir -m 1777 "$SB_DIR/nodes/$node/tmp"; done
  head -c 1024 /dev/urandom >"$SB_DIR/munge/private/key" && chmod 400 "$SB_DIR/munge/private/key"
  choose_gpus || die "no GPU device nodes could be made in $SB_DIR/dev"
  SB_CTL_IP='' SB_NET='' SB_UPLINK=''
  save_settings
  : >"$SB_DIR/etc/hosts"
  start_host login
  for node in $(node_names); do start_host "$node"; done
  wait_host login
  claim_subnet "$(recorded_pid login)"
  connect_login
  write_config "$opt_toml" "${opt_conf[@]+"${opt_conf[@]}"}" || die "the configuration could not be written to $SB_DIR/etc"
  save_settings
  if [[ $SB_SLURMDBD == yes ]]; then
    make_database &
    database=$!
  fi
  start_daemon munged
  for node in $(node_names); do
    wait_host "$node"
    connect_node "$node"
  done
  if [[ $SB_SLURMDBD == yes ]]; then
    wait $database || die "no data base could be made: $(tail -n 3 "$SB_DIR/log/mariadb-install-db.out")"
    start_accounting
  fi
  start_daemon slurmctld
  wait_until 20 controller_answers || die "slurmctld does not answer: $(tail -n 5 "$SB_DIR/log/slurmctld.log")"
  for node in $(node_names); do start_daemon "slurmd@$node"; done
  wait_until 60 nodes_idle || die "not all nodes became idle: $(SLURM_CONF=$SB_DIR/etc/slurm.conf sinfo -h -N -o '%N %T %E' | sort -u | paste -sd';')"
  SB_STARTED=yes
  save_settings
  trap - EXIT
  tenths=$(((${EPOCHREALTIME/[.,]/} - began) / 100000))
  say "'$SB_NAME' is up: $SB_NODES nodes$( ((SB_GPUS == 0)) || echo " of $SB_GPUS $SB_GPU_KIND GPUs"), all idle after $((tenths / 10)).$((tenths % 10)) s; try: dl-sandbox exec sinfo"
}

# tear_down: ends all processes and removes the folder. Needs the lock.
tear_down() {
  kill_ours || return 1
  remove_cgroups <"$(cgroup_list)"
  rm -rf --one-file-system "$SB_DIR"
}
cmd_down() {
  (($# == 0)) || usage_error "down: unknown argument '$1'"
  ((EUID == 0)) || die "root is needed to end a sandbox"
  if [[ ! -d $SB_DIR ]]; then
    # Its folder may have been removed by hand: the mark of its namespaces tells what else was its.
    local ids id
    mapfile -t ids < <(our_processes | cut -d' ' -f1 | sort -u)
    kill_ours || return 1
    for id in "${ids[@]+"${ids[@]}"}"; do remove_cgroups < <(cgroups_of "$id"); done
    return
  fi
  [[ ! -L $SB_DIR ]] || die "$SB_DIR is a link, not a sandbox"
  lock_sandbox
  load_settings || rmdir "$SB_DIR" 2>/dev/null || [[ ! -d $SB_DIR ]] || die "$SB_DIR is not a sandbox; nothing was removed"
  [[ ${SB_BOOT:-} == "$(</proc/sys/kernel/random/boot_id)" ]] || rm -f "$SB_DIR"/run/*.pid
  tear_down
}
