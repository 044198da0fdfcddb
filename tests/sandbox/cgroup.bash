# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154  # the parts share their variables
# Each node gets its own cgroup (version 1) in these hierarchies, and sees it as the root: Slurm's folders of two nodes of
# one name never meet, and memory limits and the tracking of a job's processes are the kernel's.

kCgroupHierarchies="freezer memory"

# own_cgroup HIERARCHY: the folder of this process's cgroup, if it can be written to.
own_cgroup() {
  local mount root path
  read -r root mount < <(awk -v h="$1" '{ for (i = 7; i <= NF; i++) if ($i == "-") { if ($(i + 1) == "cgroup" && $(i + 3) ~ ("(^|,)" h "(,|$)")) print $4, $5 } }' \
    /proc/self/mountinfo) || return 1
  path=$(awk -F: -v h="$1" '$2 ~ ("(^|,)" h "(,|$)") { print $3 }' /proc/self/cgroup)
  [[ -n $path && -n $mount ]] || return 1
  [[ $root == / ]] || path=${path#"$root"}
  [[ -d $mount/$path ]] || path=
  echo "$mount${path%/}"
}
# cgroup_usable: tried, not guessed.
cgroup_usable() {
  local h dir
  [[ -e /proc/self/ns/cgroup && -d /sys/fs/cgroup ]] || return 1
  for h in $kCgroupHierarchies; do
    dir=$(own_cgroup "$h") && mkdir "$dir/dl-sandbox-try-$$" 2>/dev/null && rmdir "$dir/dl-sandbox-try-$$" || return 1
  done
  unshare --cgroup --mount sh -c "mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/freezer && mount -t cgroup -o freezer cgroup /sys/fs/cgroup/freezer" 2>/dev/null
}
# choose_cgroup WANTED(yes|no|''): sets SB_CGROUP.
choose_cgroup() {
  case $1 in
    no) SB_CGROUP=no ;;
    yes)
      cgroup_usable || die "--cgroup: this system does not let root make cgroups of version 1 (freezer, memory), and dl-sandbox makes none of version 2, which Slurm refuses where any of version 1 is mounted; leave it out or give --no-cgroup"
      SB_CGROUP=yes
      ;;
    *) if cgroup_usable; then SB_CGROUP=yes; else SB_CGROUP=no; fi ;;
  esac
}
# make_cgroups NODE: prints the folders, which node_init.bash joins.
make_cgroups() {
  local h dir
  for h in $kCgroupHierarchies; do
    dir=$(own_cgroup "$h")/dl-sandbox-$SB_ID
    mkdir -p "$dir/$1" || return 1
    grep -qxF "$dir" "$SB_DIR/cgroups" 2>/dev/null || echo "$dir" >>"$SB_DIR/cgroups"
    echo "$dir/$1"
  done
}
# cgroup_pids: what is in them. A job that made a network namespace of its own is found here.
cgroup_pids() {
  local dir
  while read -r dir; do
    [[ $dir != */dl-sandbox-* || ! -d $dir ]] || find "$dir" -mindepth 2 -name cgroup.procs -exec cat {} + 2>/dev/null
  done <"$(cgroup_list)" | sort -u
}
cgroup_list() { if [[ -r $SB_DIR/cgroups ]]; then echo "$SB_DIR/cgroups"; else echo /dev/null; fi; }
cgroups_of() {
  local h dir
  for h in $kCgroupHierarchies; do dir=$(own_cgroup "$h") && echo "$dir/dl-sandbox-$1"; done
}
# remove_cgroups: those named on standard input, deepest first. The kernel lets a folder go only when its processes are gone.
remove_cgroups() {
  local dir try
  while read -r dir; do
    [[ $dir == */dl-sandbox-* ]] || continue
    for ((try = 0; try < 100; try++)); do
      [[ -d $dir ]] || break
      find "$dir" -depth -type d -exec rmdir {} + 2>/dev/null
      [[ -d $dir ]] && sleep 0.05
    done
    [[ ! -d $dir ]] || say "the cgroup $dir could not be removed"
  done
}
