#!/usr/bin/env bash
# clang-tidy with the repository's settings finds nothing. A file that was found clean is looked at again only when it, what
# it includes, the settings or clang-tidy have changed, in more than comments: stamps are kept in ~/.cache/slurm-dl/tidy, as ccache keeps objects.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# Without `..`: the key below is made of paths that have the folders' names cut off.
top_srcdir=$(cd "$top_srcdir" && pwd -P) top_builddir=$(cd "$top_builddir" && pwd -P)
cd "$top_srcdir" || exit 1
if ! command -v clang-tidy >/dev/null; then
  skip "clang-tidy finds nothing" "clang-tidy is not installed"
  finish
  exit 0
fi
flags=(-std=c++17 -I"$top_srcdir" -I"$top_builddir" -D_FILE_OFFSET_BITS=64 -D_GNU_SOURCE
  '-DDL_PKGDATADIR="/"' '-DDL_PKGLIBEXECDIR="/"' '-DDL_SLURMCONFDIR="/"' '-DDL_BINDIR="/"' '-DDL_PKGLIBDIR="/"' '-DDL_SLURM_SERIES="22.05"')
read -ra found < <(pkg-config --cflags hdf5-serial libuv libxxhash 2>/dev/null)
flags+=("${found[@]}")
read -ra found < <(mpicxx --showme:compile 2>/dev/null) # libdllearner's
flags+=("${found[@]}")
mapfile -t files < <(project_files | grep -E '^(common|launcher|frameworks|slurm-plugin|checkpoint)/.*\.cpp$' | grep -v '/example/')
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
tidy_one() {
  local file=$1 out=$2
  shift 2
  local text stamp
  # Of comments only those count that clang-tidy reads: NOLINT, and names of arguments. -P leaves out where the tree lies.
  stamp=$DL_TIDY_CACHE/$({
    echo "$DL_TIDY_KEY"
    g++ -x c++ -E -P "$@" "$file" 2>/dev/null || echo "$RANDOM$RANDOM"
    g++ -x c++ -E -C -P "$@" "$file" 2>/dev/null | grep -E 'NOLINT|/\*[A-Za-z_0-9]+=\*/'
  } | sha256sum | cut -c1-40)
  if [ -e "$stamp" ]; then return; fi
  # The analyzer follows each function's paths as far as in its own shallow mode: three times as far took twice the time of the whole
  # and found nothing more. The key need not know: what is clean farther is clean here.
  text=$(clang-tidy --quiet "$file" -- "$@" -Xclang -analyzer-config -Xclang max-nodes=75000 2>/dev/null | grep -E '(warning|error):' | sort -u)
  if [ -n "$text" ]; then
    printf '%s\n' "$text" >"$out/$(echo "$file" | tr / _)"
  elif [ -d "$DL_TIDY_CACHE" ]; then
    : >"$stamp"
  fi
}
export -f tidy_one
export DL_TIDY_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/slurm-dl/tidy DL_TIDY_KEY
# Wherever the build folder lies, as in make distcheck, the key is that of build/.
keyed=("${flags[@]/#-I$top_builddir/-I$top_srcdir/build}")
DL_TIDY_KEY=$(clang-tidy --version; cat .clang-tidy; echo "${keyed[@]//$top_srcdir/}")
read -ra found < <(pkg-config --cflags pmix 2>/dev/null) # dl-pmix's; the key need not know: its headers are in what is hashed
flags+=("${found[@]}")
if mkdir -p "$DL_TIDY_CACHE" 2>/dev/null; then find "$DL_TIDY_CACHE" -type f -mtime +30 -delete; fi
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'tidy_one "$@"' _ {} "$out" "${flags[@]}"
findings=$(cat "$out"/* 2>/dev/null | sort -u | head -n 60)
check "clang-tidy finds nothing in ${#files[@]} files" "$findings"
finish
