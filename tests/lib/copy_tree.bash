# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# copy_tree FOLDER: copies the sources, and of the build all but tests and stage, so that a test may edit the copy and go on building in
# it: what was compiled is not compiled again. Sets $tree and $built, the copies of $top_srcdir and $top_builddir, which lie to one
# another as those do.
copy_tree() {
  local file
  : "${top_srcdir:?}" "${top_builddir:?}"
  tree=$1/one/two/tree
  built=$(realpath -m "$tree/$(realpath -m --relative-to="$top_srcdir" "$top_builddir")")
  mkdir -p "$tree" "$built"
  # The files of git, or of a tarball, and those of ./bootstrap. Times are kept: they say what has to be made.
  (
    cd "$top_srcdir" || exit 1
    # shellcheck disable=SC2016  # expanded by that shell
    { top_srcdir=$top_srcdir bash -c '. tests/lib/tap.sh; project_files'
      printf '%s\n' Makefile.in aclocal.m4 config.h.in configure build-aux m4; } | xargs -d '\n' cp -a --parents -t "$tree"
  ) || return 1
  (
    cd "$top_builddir" || exit 1
    { printf '%s\n' Makefile config.h config.status libtool stamp-h1 common frameworks checkpoint launcher slurm-plugin man packaging
      find tests -name .deps -type d; } | xargs -d '\n' cp -a --parents -t "$built"
  ) || return 1
  chmod -R u+w "$tree" "$built"
  grep -rlIF --include=Makefile --include=config.status --include=libtool --include='*.P*o' --include='*.d' --include='*.la' \
    -e "$top_srcdir" -e "$top_builddir" "$built" |
    while read -r file; do
      sed "s|$top_builddir|$built|g; s|$top_srcdir|$tree|g" "$file" >"$file.new" && chmod --reference="$file" "$file.new" &&
        touch -r "$file" "$file.new" && mv "$file.new" "$file"
    done
}
