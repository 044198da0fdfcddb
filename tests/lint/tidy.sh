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
# key_of FILE FLAG...: writes the path of FILE's stamp and FILE to $DL_TIDY_OUT/keys, if there is no such stamp.
key_of() {
  local file=$1 stamp
  shift
  # Of comments only those count that clang-tidy reads: NOLINT, and names of arguments. -P leaves out where the tree lies.
  stamp=$DL_TIDY_CACHE/$({
    echo "$DL_TIDY_KEY"
    g++ -x c++ -E -P "$@" "$file" 2>/dev/null || echo "$RANDOM$RANDOM"
    g++ -x c++ -E -C -P "$@" "$file" 2>/dev/null | grep -E 'NOLINT|/\*[A-Za-z_0-9]+=\*/'
  } | sha256sum | cut -c1-40)
  [ -e "$stamp" ] || echo "$stamp $file" >"$DL_TIDY_OUT/keys/${file//\//_}"
}
# tidy FILE OPTION... -- FLAG...: what clang-tidy finds. Status 1 if it finds something or cannot read FILE.
tidy() {
  local text status
  # The analyzer follows each function's paths as far as in its own shallow mode: three times as far took twice the time of the whole
  # and found nothing more. The key need not know: what is clean farther is clean here.
  text=$(clang-tidy --quiet "$@" -Xclang -analyzer-config -Xclang max-nodes=75000 2>/dev/null) && status=0 || status=$?
  grep -E '(warning|error):' <<<"$text" | sort -u
  if [ $status -ne 0 ] && ! grep -qE '(warning|error):' <<<"$text"; then echo "$1: clang-tidy ended with status $status"; fi
  [ $status -eq 0 ] && ! grep -qE '(warning|error):' <<<"$text"
}
# tidy_group "FILE..." FLAG...: looks at the files as one, since half of the time of each goes to headers that they share. Where that
# finds something, which may be no more than two functions of one name, each file is looked at by itself, and that counts.
tidy_group() {
  local files file group
  read -ra files <<<"$1"
  shift
  if [ ${#files[@]} -gt 1 ]; then
    group=$(mktemp "$DL_TIDY_OUT/XXXXXX.cpp")
    cat "${files[@]}" >"$group" # not by #include: the analyzer follows no paths through what is included
    if tidy "$group" --config-file=.clang-tidy -- "$@" >"$group.found"; then
      for file in "${files[@]}"; do stamp "$file"; done
      return
    fi
  fi
  for file in "${files[@]}"; do
    if tidy "$file" -- "$@" >"$DL_TIDY_OUT/found/${file//\//_}"; then stamp "$file"; fi
  done
}
stamp() { if [ -d "$DL_TIDY_CACHE" ]; then : >"$(cut -d' ' -f1 "$DL_TIDY_OUT/keys/${1//\//_}")"; fi; }
export -f key_of tidy tidy_group stamp
export DL_TIDY_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/slurm-dl/tidy DL_TIDY_KEY DL_TIDY_OUT=$out
# Wherever the build folder lies, as in make distcheck, the key is that of build/.
keyed=("${flags[@]/#-I$top_builddir/-I$top_srcdir/build}")
DL_TIDY_KEY=$(clang-tidy --version; cat .clang-tidy; echo "${keyed[@]//$top_srcdir/}")
read -ra found < <(pkg-config --cflags pmix 2>/dev/null) # dl-pmix's; the key need not know: its headers are in what is hashed
flags+=("${found[@]}")
if mkdir -p "$DL_TIDY_CACHE" 2>/dev/null; then find "$DL_TIDY_CACHE" -type f -mtime +30 -delete; fi
mkdir "$out/keys" "$out/found"
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'key_of "$@"' _ {} "${flags[@]}"
# Groups of at most eight files of one folder.
find "$out/keys" -type f -exec cat {} + | cut -d' ' -f2 | sort | awk '{
    folder = $0; sub(/\/[^\/]*$/, "", folder)
    if (folder != last || n == 8) { if (n) print line; line = $0; n = 1 } else { line = line " " $0; n++ }
    last = folder
  } END { if (n) print line }' >"$out/groups"
xargs -d '\n' -P "$(nproc)" -I{} bash -c 'tidy_group "$@"' _ {} "${flags[@]}" <"$out/groups"
findings=$(cat "$out"/found/* 2>/dev/null | sort -u | head -n 60)
check "clang-tidy finds nothing in ${#files[@]} files" "$findings"
finish
