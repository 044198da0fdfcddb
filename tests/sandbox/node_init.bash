#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# node_init.bash SB_DIR NAME SPARE-CGROUPS: runs inside a host's new namespaces, makes them its own, and stays as the process that
# holds them. "ready" in SB_DIR/run/NAME.state says that it is done; anything else there is why not.
set -u
dir=$1 name=$2
fail() {
  echo "$*" >"$dir/run/$name.state"
  exit 1
}
hostname "$name" || fail "the host name could not be set"
mount --bind "$dir/etc/hosts" /etc/hosts || fail "/etc/hosts could not be mounted over"
if [[ -d /etc/slurm ]]; then
  # What ignores $SLURM_CONF (slurmdbd, a job's own clean environment) finds the sandbox's files here.
  mount --bind "$dir/etc" /etc/slurm || fail "/etc/slurm could not be mounted over"
fi
if [[ $name != login ]]; then
  mount -t tmpfs -o mode=1777,size=50% "dlsb-$name" /dev/shm || fail "no own /dev/shm could be mounted"
fi
if (($# > 2)); then
  # The namespace of cgroups begins where we are now (unshare ran after we were moved).
  mount -t tmpfs -o mode=755 "dlsb-$name" /sys/fs/cgroup || fail "/sys/fs/cgroup could not be mounted over"
  for hierarchy in "${@:3}"; do
    { mkdir "/sys/fs/cgroup/$hierarchy" && mount -t cgroup -o "$hierarchy" cgroup "/sys/fs/cgroup/$hierarchy"; } ||
      fail "the cgroups of $hierarchy could not be mounted"
  done
  # That of version 2 holds no controllers beside version 1, but the kernel tells sockets by it.
  { mkdir /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified; } 2>/dev/null || rmdir /sys/fs/cgroup/unified 2>/dev/null
fi
echo ready >"$dir/run/$name.state"
exec -a "dl-sandbox $dir $name" sleep infinity
