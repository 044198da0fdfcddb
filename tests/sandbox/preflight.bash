# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154  # the parts share their variables
# Says in one sentence what this machine lacks, before anything was made.

# need_program PROGRAM DEBIAN-PACKAGE WHAT-FOR
need_program() {
  local path
  # command -v also names a file that may not be run.
  { path=$(command -v "$1") && [[ -x $path ]]; } || die "the program $1 ($3) is missing; on Debian the package $2 has it"
}

check_machine() {
  ((EUID == 0)) || die "root is needed to make namespaces and network interfaces; run it with sudo, or in a container started with --privileged"
  export PATH=$PATH:/usr/sbin:/sbin
  need_program unshare util-linux "makes the nodes' namespaces"
  need_program nsenter util-linux "enters the nodes' namespaces"
  need_program setpriv util-linux "runs commands as a user"
  need_program ip iproute2 "makes the nodes' network"
  need_program flock util-linux "keeps two calls apart"
  need_program munged munge "authenticates Slurm's messages"
  need_program slurmctld slurmctld "Slurm's controller"
  need_program slurmd slurmd "Slurm's node daemon"
  need_program sinfo slurm-client "asks the controller"
  if [[ $SB_SLURMDBD == yes ]]; then
    need_program slurmdbd slurmdbd "Slurm's accounting daemon"
    need_program sacctmgr slurm-client "makes accounts"
    need_program mariadbd mariadb-server "Slurm's accounting data base"
    need_program mariadb mariadb-client "asks it"
    need_program mariadb-install-db mariadb-server "makes an empty data base"
    [[ -d /etc/slurm ]] || die "slurmdbd reads /etc/slurm only, and that folder is missing to mount the sandbox's own over it; make it with: mkdir /etc/slurm"
  fi
  [[ -f /etc/hosts ]] || die "/etc/hosts is missing; the nodes need it to mount their own over it"
  local ns
  for ns in net mnt uts ipc; do
    [[ -e /proc/self/ns/$ns ]] || die "this kernel has no $ns namespaces; a kernel with CONFIG_NAMESPACES is needed"
  done
  unshare --net --mount --uts --ipc true 2>/dev/null ||
    die "this system forbids new namespaces even to root; in a container, start it with --privileged (or with CAP_SYS_ADMIN and CAP_NET_ADMIN)"
}

# check_network ERRORS: turns what `ip` said into a sentence.
network_refusal() {
  case $1 in
    *"Unknown device type"* | *"not supported"*)
      die "this kernel cannot make the network interface ($1); it needs the modules bridge and veth: modprobe -a bridge veth" ;;
    *"Operation not permitted"*) die "making network interfaces is forbidden here ($1); in a container, start it with --privileged" ;;
    *) die "the nodes' network could not be made: $1" ;;
  esac
}
