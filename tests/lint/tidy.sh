#!/usr/bin/env bash
# clang-tidy with the repository's settings finds nothing. A file that was found clean is looked at again only when it, what
# it includes, the settings or clang-tidy have changed, in more than comments: stamps are kept in ~/.cache/slurm-dl/tidy, as ccache keeps objects.
# Each clean file has two: one for the contents of all that it includes (tidy_keys.py), one for what the preprocessor makes of them.
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
# key_of FILE FLAG...: writes the path of FILE's stamp and FILE to $DL_TIDY_OUT/keys, or marks FILE as clean if there is such a stamp. What
# FILE includes is written to $DL_TIDY_OUT/depends.
key_of() {
  local file=$1 stamp
  local depends=$DL_TIDY_OUT/depends/${1//\//_}
  shift
  # Of comments only those count that clang-tidy reads: NOLINT, and names of arguments. -P leaves out where the tree lies.
  stamp=$DL_TIDY_CACHE/$({
    echo "$DL_TIDY_KEY"
    g++ -x c++ -E -P -MD -MT x -MF "$depends" "$@" "$file" || echo "$RANDOM$RANDOM"
    tr -s ' \\\n' '\n' <"$depends" | grep -vE '^(x:|/usr/.*)?$' | xargs -r grep -hE 'NOLINT|/\*[A-Za-z_0-9]+=\*/'
  } 2>/dev/null | sha256sum | cut -c1-40)
  if [ -e "$stamp" ]; then : >"$DL_TIDY_OUT/clean/${file//\//_}"; else echo "$stamp $file" >"$DL_TIDY_OUT/keys/${file//\//_}"; fi
}
# tidy FILE OPTION... -- FLAG...: what clang-tidy finds. Status 1 if it finds something or cannot read FILE.
tidy() {
  local text status
  # The analyzer follows each function's paths as far as in its own shallow mode: three times as far took twice the time of the whole
  # and found nothing more. The key need not know: what is clean farther is clean here.
  text=$(clang-tidy --quiet "$@" -Xclang -analyzer-config -Xclang max-nodes=75000 2>/dev/null) && status=0 || status=$?
  text=$(grep -E '(warning|error):' <<<"$text" | sort -u)
  if [ $status -ne 0 ] && [ -z "$text" ]; then text="$1: clang-tidy ended with status $status"; fi
  [ -z "$text" ] || { echo "$text"; return 1; }
}
# tidy_group "FILE..." FLAG...: looks at the files as one, since half of the time of each goes to headers that they share. Where that
# finds something, which may be no more than two functions of one name, it looks at each half, and so on: what is found in one file counts.
tidy_group() {
  local files file group half
  read -ra files <<<"$1"
  shift
  if [ ${#files[@]} -eq 1 ]; then look_at "${files[0]}" -- "$@"; return; fi
  group=$(mktemp "$DL_TIDY_OUT/XXXXXX.cpp")
  cat "${files[@]}" >"$group" # not by #include: the analyzer follows no paths through what is included
  if tidy "$group" --config-file=.clang-tidy -- "$@" >"$group.found"; then
    for file in "${files[@]}"; do
      # A using-declaration counts as used if another file of the group uses what it names.
      if grep -qE '^ *using +[A-Za-z_:]+::[A-Za-z_]+;' "$file"; then
        look_at "$file" '--checks=-*,misc-unused-using-decls' -- "$@"
      else
        passed "$file"
      fi
    done
  else
    half=$((${#files[@]} / 2))
    tidy_group "${files[*]:0:half}" "$@"
    tidy_group "${files[*]:half}" "$@"
  fi
}
# look_at FILE OPTION... -- FLAG...: what clang-tidy finds in FILE is written to $DL_TIDY_OUT/found; if nothing, FILE has passed.
look_at() { if tidy "$@" >"$DL_TIDY_OUT/found/${1//\//_}"; then passed "$1"; fi; }
# passed FILE: marks it as clean, and keeps its stamps unless it has been edited since its key was made.
passed() {
  local name=${1//\//_} stamp
  local key=$DL_TIDY_OUT/keys/$name
  : >"$DL_TIDY_OUT/clean/$name"
  if [ -d "$DL_TIDY_CACHE" ] && [ ! "$1" -nt "$key" ]; then
    for stamp in $(cut -d' ' -f1 "$key"; cat "$DL_TIDY_OUT/stamps/$name" 2>/dev/null); do : >"$stamp"; done
  fi
}
export -f key_of tidy tidy_group look_at passed
export DL_TIDY_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/slurm-dl/tidy DL_TIDY_KEY DL_TIDY_OUT=$out
# Wherever the build folder lies, as in make distcheck, the key is that of build/.
keyed=("${flags[@]/#-I$top_builddir/-I$top_srcdir/build}")
DL_TIDY_KEY=$(clang-tidy --version; cat .clang-tidy; echo "${keyed[@]//$top_srcdir/}")
read -ra found < <(pkg-config --cflags pmix 2>/dev/null) # dl-pmix's; the key need not know: its headers are in what is hashed
flags+=("${found[@]}")
if mkdir -p "$DL_TIDY_CACHE" 2>/dev/null; then find "$DL_TIDY_CACHE" -type f -mtime +30 -delete; fi
mkdir "$out"/{keys,found,clean,depends,stamps}
contents() { python3 tests/lint/tidy_keys.py "$1" "$DL_TIDY_CACHE" "$out" "$top_srcdir" "$top_builddir"; }
mapfile -t unknown < <(printf '%s\n' "${files[@]}" | contents known || printf '%s\n' "${files[@]}")
if [ ${#unknown[@]} -gt 0 ]; then
  printf '%s\0' "${unknown[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'key_of "$@"' _ {} "${flags[@]}"
  if [ -d "$DL_TIDY_CACHE" ]; then printf '%s\n' "${unknown[@]}" | contents keep; fi
fi
find "$out/keys" -type f -exec cat {} + | cut -d' ' -f2 | python3 tests/lint/tidy_groups.py 12 >"$out/groups"
xargs -d '\n' -P "$(nproc)" -I{} bash -c 'tidy_group "$@"' _ {} "${flags[@]}" <"$out/groups"
findings=$(cat "$out"/found/* 2>/dev/null | sort -u | head -n 60
  # A clang-tidy that was killed, or a full disk, must not pass for a clean tree.
  for file in "${files[@]}"; do
    [ -e "$out/clean/${file//\//_}" ] || [ -s "$out/found/${file//\//_}" ] || echo "$file: clang-tidy did not look at it"
  done)
check "clang-tidy finds nothing in ${#files[@]} files" "$findings"
finish
