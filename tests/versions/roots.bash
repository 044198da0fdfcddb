# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Root file systems of other Debian releases, each with the Slurm of that release: made once by debootstrap, entered by
# namespaces of their own. Nothing of this machine but its kernel is seen inside. The caller sets top.
# shellcheck disable=SC2154,SC2034  # top is the caller's, kVersions is for it

# release_of SLURM: the release of Debian that has it. clean-N: Debian N, for tests of packages; packages-N: to make them (tests/packaging).
release_of() {
  case $1 in
    24.11) echo trixie ;;
    26.05) echo sid ;;
    clean-12 | packages-12) echo bookworm ;;
    clean-13) echo trixie ;;
    *) return 1 ;;
  esac
}
kVersions="24.11 26.05"

roots_folder() { echo "${DL_VERSION_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/slurm-dl/roots}"; }

# mirror: the archive that this machine's own packages come from; empty where none is named, for debootstrap's own choice.
mirror() {
  local found
  found=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
    sed -nE 's/^(URIs:|deb) *(\[[^]]*\] *)?(https?:[^ ]*debian)\/? *.*/\3/p' | grep -v security | head -n 1)
  echo "$found"
}

# why_no_roots: a sentence when this machine cannot have them, nothing otherwise.
why_no_roots() {
  ((EUID == 0)) || { echo "needs root, for file systems and namespaces of its own"; return; }
  unshare --mount --pid --fork --uts --ipc --net true 2>/dev/null || echo "needs the right to make namespaces"
}

# make_root SLURM [GROUP…]: a root with what slurm-dl is built and tested with, or with these groups of packages.debian; does only what is
# missing. Prints why it cannot.
make_root() {
  local release root folder archive groups=("${@:2}")
  if ((${#groups[@]} == 0)); then groups=(build sandbox slurmdbd pytorch versions-inside); fi
  release=$(release_of "$1") folder=$(roots_folder) root=$(roots_folder)/$1
  mkdir -p "$folder" || return 1
  if [[ ! -e $root/.bootstrapped ]]; then
    "$top/packaging/install-packages" versions || return 1
    rm -rf --one-file-system "$root"
    archive=$(mirror)
    debootstrap --variant=minbase --include=ca-certificates "$release" "$root" ${archive:+"$archive"} >"$folder/$1.log" 2>&1 || {
      echo "debootstrap cannot make a root of Debian's $release: $(tail -n 1 "$folder/$1.log")"
      return 1
    }
    touch "$root/.bootstrapped"
  fi
  mkdir -p "$root/src/packaging"
  cp "$top"/packaging/{install-packages,packages.debian} "$root/src/packaging/"
  in_root --net "$1" /src/packaging/install-packages "${groups[@]}" >>"$folder/$1.log" 2>&1 || {
    echo "the packages cannot be installed in Debian's $release: $(tail -n 1 "$folder/$1.log")"
    return 1
  }
  in_root "$1" sh -c 'id tester >/dev/null 2>&1 || useradd --create-home tester'
}

# in_root [--net] SLURM COMMAND…: as root of that system, with mounts, processes and a host name of its own, and without
# --net a network that has a loopback only. pivot_root, not chroot: dl-sandbox enters mount namespaces, whose root must
# be the system's.
in_root() {
  local -a spaces=(--mount --pid --fork --uts --ipc --propagation private --kill-child)
  if [[ $1 == --net ]]; then shift; else spaces+=(--net); fi
  local root
  root=$(roots_folder)/$1
  shift
  # shellcheck disable=SC2016  # expanded by the shell inside
  env -i TERM="${TERM:-dumb}" HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    CI="${CI:-}" unshare "${spaces[@]}" /bin/bash -c '
      set -e
      root=$1
      shift
      mount --bind "$root" "$root"
      cd "$root"
      mkdir -p proc sys dev tmp .old
      mount -t proc proc proc
      mount --rbind /dev dev
      mount -t tmpfs -o mode=1777 tmpfs dev/shm
      mount --rbind /sys sys
      rm -f etc/resolv.conf
      if [ -e /etc/resolv.conf ]; then cp -L /etc/resolv.conf etc/resolv.conf; else : >etc/resolv.conf; fi
      hostname root
      pivot_root . .old
      cd /
      umount -l /.old
      ip link set lo up 2>/dev/null || true
      exec "$@"' in_root "$root" "$@"
}

# copy_source SLURM: the project's files into /src of that root. What was built there stays, and a file that did not change
# keeps its time; one that did is as new as now, whenever it was edited here, so that make sees it.
copy_source() {
  local root file
  root=$(roots_folder)/$1
  rm -rf --one-file-system "$root/src.new"
  mkdir -p "$root/src.new" "$root/src"
  (cd "$top" && {
    git ls-files --cached --others --exclude-standard 2>/dev/null ||
      find . -type f -not -path './build*' -not -path './autom4te.cache/*' -printf '%P\n'
  } | while read -r file; do
    [[ ! -f $file ]] || echo "$file"
  done | tar --create --files-from=- --file=-) | tar --extract --touch --directory="$root/src.new" --file=- || return 1
  while read -r file; do
    cmp -s "$root/src.new/$file" "$root/src/$file" || install -D --mode="$(stat -c %a "$root/src.new/$file")" "$root/src.new/$file" "$root/src/$file"
  done < <(cd "$root/src.new" && find . -type f -printf '%P\n')
  # Files that are gone here. What lies beside the sources of a room was copied once, all else was made there.
  while read -r file; do
    [[ -e $root/src.new/$file ]] || rm -f "$root/src/$file"
  done < <(cat "$root/src.copied" 2>/dev/null)
  (cd "$root/src.new" && find . -type f -printf '%P\n') >"$root/src.copied"
  rm -rf --one-file-system "$root/src.new"
}
