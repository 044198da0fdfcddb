# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154  # the parts share their variables
# What every part uses: messages, the choice of the sandbox, and its remembered settings.
#
# A sandbox is a folder, $SB_DIR, and the processes in its namespaces. settings (in that folder) is written by `up` alone.

say() { echo "dl-sandbox: $*" >&2; }
die() {
  say "$*"
  exit 1
}
usage_error() {
  say "$*"
  exit 2
}
need_value() { (($# >= 2)) || usage_error "$1: a value is needed"; }

# check_count FLAG VALUE MIN MAX: a whole number in a range.
check_count() {
  { [[ $2 =~ ^[0-9]{1,6}$ ]] && ((10#$2 >= $3 && 10#$2 <= $4)); } || usage_error "$1=$2: a whole number from $3 to $4 is allowed"
}

# choose_sandbox NAME DIR: sets SB_NAME and SB_DIR. What is given wins over $DL_SANDBOX_DIR (set inside a sandbox).
choose_sandbox() {
  SB_NAME=$1 SB_DIR=$2
  [[ -z $SB_NAME || $SB_NAME =~ ^[a-z][a-z0-9-]{0,19}$ ]] ||
    usage_error "--name=$SB_NAME: up to 20 lower-case letters, digits and '-', a letter first, are allowed"
  if [[ -z $SB_DIR ]]; then
    if [[ -z $SB_NAME && -n ${DL_SANDBOX_DIR:-} ]]; then SB_DIR=$DL_SANDBOX_DIR; else SB_DIR=/tmp/dl-sandbox-${SB_NAME:-default}; fi
  fi
  [[ $SB_DIR == /* ]] || SB_DIR=$PWD/$SB_DIR
  # Sockets lie in it, and a socket's path has at most 107 bytes; slurm.conf cannot quote white space.
  [[ $SB_DIR =~ ^[A-Za-z0-9/._+@-]{2,70}$ ]] || usage_error "--dir=$SB_DIR: a path of at most 70 letters, digits and /._+@- is allowed"
  [[ -n $SB_NAME ]] || { SB_NAME=${SB_DIR##*/} && SB_NAME=${SB_NAME#dl-sandbox-}; }
}

kSettings="SB_ID SB_NAME SB_DIR SB_BOOT SB_NET SB_NODES SB_GPUS SB_GPU_TYPE SB_GPU_KIND SB_CPUS SB_SLURMDBD SB_GRACE SB_PLUGINS \
SB_BIN SB_CGROUP SB_CTL_IP SB_UPLINK SB_STARTED"
# Written whole and renamed, so that a reader never sees half of it.
save_settings() {
  local key
  for key in $kSettings; do printf '%s=%q\n' "$key" "${!key:-}"; done >"$SB_DIR/settings.new" &&
    mv "$SB_DIR/settings.new" "$SB_DIR/settings"
}
# Sourced only when root (or the caller) wrote it: it is code.
load_settings() {
  local owner dir=$SB_DIR
  [[ -r $SB_DIR/settings ]] || return 1
  # -O follows a symbolic link; stat names the owner of the link itself, who may be another user than that of the file behind it.
  if [[ -O $SB_DIR/settings && ! -L $SB_DIR/settings ]]; then owner=$EUID; else owner=$(stat -c %u "$SB_DIR/settings") || return 1; fi
  [[ $owner == 0 || $owner == "$EUID" ]] || die "$SB_DIR/settings belongs to user $owner, not to root: not a sandbox of this machine's root"
  # shellcheck source=/dev/null
  . "$SB_DIR/settings"
  SB_DIR=$dir
}
need_sandbox() { { load_settings && [[ -n ${SB_ID:-} ]]; } || die "no sandbox in $SB_DIR; start one with: dl-sandbox up"; }
need_running() {
  need_sandbox
  holder_alive login || die "the sandbox in $SB_DIR is not running; start it again with: dl-sandbox up"
}
node_names() {
  local i
  for ((i = 1; i <= SB_NODES; i++)); do echo "n$i"; done
}
check_node() {
  { [[ $1 =~ ^n([1-9][0-9]{0,3})$ ]] && ((BASH_REMATCH[1] <= SB_NODES)); } || usage_error "no node '$1'; allowed: n1 to n$SB_NODES"
}

# wait_until SECONDS COMMAND…: polls, true as soon as the command is.
wait_until() {
  local end=$((${EPOCHREALTIME/[.,]/} + $1 * 1000000))
  shift
  until "$@"; do
    ((${EPOCHREALTIME/[.,]/} < end)) || return 1
    sleep 0.03
  done
}
# close_others: closes all descriptors but 0, 1, 2, so that a daemon holds nothing of its starter (locks, pipes, bats' own).
close_others() {
  local fd
  for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    ((fd <= 2)) || eval "exec $fd>&-"
  done 2>/dev/null
}
