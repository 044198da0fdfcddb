#!/usr/bin/env bash
# clang-tidy with the repository's settings finds nothing.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
cd "$top_srcdir" || exit 1
if ! command -v clang-tidy >/dev/null; then
  skip "clang-tidy finds nothing" "clang-tidy is not installed"
  finish
  exit 0
fi
flags=(-std=c++17 -I"$top_srcdir" -I"$top_builddir" -DFMT_HEADER_ONLY -D_FILE_OFFSET_BITS=64 -D_GNU_SOURCE
  '-DDL_PKGDATADIR="/"' '-DDL_PKGLIBEXECDIR="/"' '-DDL_SLURMCONFDIR="/"' '-DDL_BINDIR="/"')
read -ra found < <(pkg-config --cflags hdf5-serial libuv libxxhash 2>/dev/null)
flags+=("${found[@]}")
mapfile -t files < <(project_files | grep -E '^(launcher|frameworks|slurm-plugin|checkpoint)/.*\.cpp$' | grep -v '/example/')
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
tidy_one() {
  local file=$1 out=$2
  shift 2
  local text
  text=$(clang-tidy --quiet "$file" -- "$@" 2>/dev/null | grep -E '(warning|error):' | sort -u)
  [ -z "$text" ] || printf '%s\n' "$text" >"$out/$(echo "$file" | tr / _)"
}
export -f tidy_one
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'tidy_one "$@"' _ {} "$out" "${flags[@]}"
findings=$(cat "$out"/* 2>/dev/null | sort -u | head -n 60)
check "clang-tidy finds nothing in ${#files[@]} files" "$findings"
finish
