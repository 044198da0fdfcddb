# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For which releases of Debian packages are made and tried, and which release of slurm-dl they replace. The caller has top_srcdir.
# shellcheck disable=SC2034,SC2154  # the callers read and set them

# Debian | its Slurm | the root of tests/versions/roots.bash where its packages are made, if this machine has another release
kReleases='
12 22.05 packages-12
13 24.11 24.11
'
# release_row DEBIAN: sets debian, slurm and build_root; false if there is no such row.
release_row() {
  read -r debian slurm build_root < <(grep "^$1 " <<<"$kReleases")
  [ -n "${debian:-}" ]
}
known_releases() { awk 'NF { printf "%s%s", sep, $1; sep = " or " }' <<<"$kReleases"; }
debian_here() { sed -n 's/^VERSION_ID="\{0,1\}\([0-9]*\).*/\1/p' /etc/os-release; }

# packages_of DEBIAN [SLURM]: where its packages are, unless another folder is named; those of the former release lie beside it, in …-former.
packages_of() { echo "$top_srcdir/build-packages$([ "$1" = "$(debian_here)" ] || echo "-$1")${2:+-slurm$2}"; }

# newer_slurm ROOT SLURM: has apt in a root (of roots.bash) offer the Slurm of Debian's release that has it. Prints why it cannot.
newer_slurm() {
  # The archive that the root itself came from. That release changes daily, so that the date until which its lists are good may have passed in
  # an archive that is a copy.
  in_root --net "$1" sh -c "sed -nE 's/^deb ([^ ]+) .*/deb [check-valid-until=no] \1 $(release_of "$2") main/p' /etc/apt/sources.list >/etc/apt/sources.list.d/newer.list
    apt-get update -q 2>&1 | grep '^[EW]:' || true"
}

# The release before this one: its newest tag, or as long as there is none the last commit whose plugins were each for one Slurm alone.
former_commit() {
  local tag
  for tag in $(git -C "$top_srcdir" tag --list 'v*' --sort=-version:refname --merged 2>/dev/null); do
    [ "$tag" != "v$(version_of <"$top_srcdir/configure.ac")" ] || continue
    echo "$tag"
    return
  done
  echo ad05b2796ce6712f377c75b0af97e34a6697afc4
}
version_of() { sed -nE 's/^AC_INIT\(\[slurm-dl\], \[([^]]*)\].*/\1/p'; }
