#!/usr/bin/env bash
# `make dist` packs every file of the project: a file that no Makefile.inc names is missing in the tarball.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
name="the tarball has every file of the project"
if [ ! -e "$top_srcdir/.git" ]; then
  skip "$name" "this is a tarball: there is nothing to compare it with"
else
  cd "$top_builddir" || exit 1
  packed=tarball-of-lint
  rm -rf "$packed"
  failed=
  said=$(MAKEFLAGS='' make -s distdir distdir="$packed" top_distdir="$packed" 2>&1) || failed=yes
  missing=$(comm -13 <(files_of_tarball "$packed" | sort) <(project_files | grep -vE '^(\.gitignore|m4/\.gitkeep)$' | sort))
  strange=$(comm -23 <(files_of_tarball "$packed" | sort) <(project_files | sort))
  rm -rf "$packed"
  check "make distdir works" "${failed:+make distdir failed: $said}"
  check "$name" "${missing:+Files that no Makefile.inc names: $missing}"
  check "the tarball has no file that is not the project's" "$strange"
fi
finish
