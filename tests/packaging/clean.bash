# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A clean Debian with Slurm for a test of packages: what the test does there goes into a layer above it, which is thrown away at its end.
#
#   . clean.bash; clean_root "WHAT" FOLDER    or it says in TAP why there is none, and ends the test; debian=N chooses the release (12)
#   inside COMMAND…                           as root of that system, which has no network
#   sh_inside COMMANDS                        the same for a shell; what is printed comes with what went wrong
#   state                                     all files, folders and links there, apart from what the system itself keeps of any installation
#   expect NAME PATTERN COMMANDS              a test: they succeed, and what they print has the pattern
#
# shellcheck source=tests/lib/tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/tap.sh"
# shellcheck source=tests/versions/roots.bash
top=$top_srcdir . "$top_srcdir/tests/versions/roots.bash"
# shellcheck source=tests/packaging/releases.bash
. "$top_srcdir/tests/packaging/releases.bash"
invoked=("$0" "$@")
: "${debian:=12}"

# clean_root WHAT FOLDER [GROUP…]: FOLDER has the packages of packaging/build-packages ('' for none); GROUPs of packages.debian are there, too.
clean_root() {
  local what=$1 root=clean-$debian why=''
  packages=${2:+$(realpath -m "$2")}
  shift 2
  why=$(why_no_roots)
  if [ -z "$why" ] && [ -n "$packages" ] && ! ls "$packages"/slurm-dl_*.deb >/dev/null 2>&1; then why="there are no packages in $packages; make them with tests/packaging/make --debian $debian"; fi
  # Mounts of its own, and an end, whatever a command inside waits for.
  if [ -z "$why" ] && [ "${DL_PACKAGING_INSIDE:-}" != yes ]; then
    DL_PACKAGING_INSIDE=yes exec timeout -k 10 900 unshare --mount --propagation private --pid --fork --kill-child --mount-proc "${invoked[@]}"
  fi
  [ -n "$why" ] || why=$(top=$top_srcdir make_root "$root" sandbox packages-inside) || [ -n "$why" ] || why="no root can be made"
  if [ -z "$why" ]; then
    work=$(mktemp -d "$(roots_folder)/packages.XXXXXX")
    trap clean_up EXIT
    mkdir "$work/upper" "$work/layer" "$work/clean"
    mount -t overlay overlay -o "lowerdir=$(roots_folder)/$root,upperdir=$work/upper,workdir=$work/layer" "$work/clean" 2>/dev/null ||
      why="this kernel mounts no overlay on $(roots_folder)"
  fi
  if [ -n "$why" ]; then
    skip "$what" "$why"
    finish
    exit
  fi
  export DL_VERSION_ROOTS=$work
  if (($#)); then
    in_root --net clean /src/packaging/install-packages "$@" >"$work/log" 2>&1 || { skip "$what" "$(tail -n 1 "$work/log")"; finish; exit; }
  fi
  echo '127.0.0.1 localhost' >"$work/clean/etc/hosts" # debootstrap makes none
  mkdir -p "$work/clean/debs" "$work/clean/former"
  [ -z "$packages" ] || cp "$packages"/*.deb "$work/clean/debs/"
  rm -f "$work"/clean/debs/*-dbgsym_*
}
clean_up() {
  umount -l "$work/clean" 2>/dev/null
  rm -rf --one-file-system "$work"
}
inside() { in_root clean "$@"; }
sh_inside() { inside bash -c "$1" 2>&1 </dev/null; }
expect() { expect_run "$1" 0 "$2" inside bash -c "$3"; }
state() {
  sh_inside "find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /debs -o -path /former -o -path /old -o -path /story -o -path /toy_learner.c -o -path /role -o -path /rpms -o -path /var/lib/rpm -o -path /var/lib/dpkg \
    -o -path /var/lib/apt -o -path /var/cache -o -path /var/log -o -path /tmp -o -path /root -o -path /run \) -prune -o -printf '%p\n' |
    grep -vE '^/etc/(ld.so.cache|passwd-|group-|shadow-|gshadow-)\$|/deb-systemd-helper-enabled' | sort"
}
