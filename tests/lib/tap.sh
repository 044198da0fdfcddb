# shellcheck shell=bash
# TAP for shell tests: source it, then ok/not_ok/skip per test and `finish` as the last command: its status is 1 if a test has failed.
# shellcheck source=tests/lib/jq.bash
. "$(dirname "${BASH_SOURCE[0]}")/jq.bash"
tap_count=0 tap_failed=0
ok() { tap_count=$((tap_count + 1)); echo "ok $tap_count - $1"; }
# not_ok NAME [DETAILS]
not_ok() {
  tap_count=$((tap_count + 1)) tap_failed=$((tap_failed + 1))
  echo "not ok $tap_count - $1"
  [ -z "${2:-}" ] || printf '%s\n' "$2" | sed 's/^/# /'
}
skip() { tap_count=$((tap_count + 1)); echo "ok $tap_count - $1 # SKIP $2"; }
# check NAME FINDINGS: passes when FINDINGS is empty, else shows them.
check() { if [ -z "$2" ]; then ok "$1"; else not_ok "$1" "$2"; fi; }
# expect_run NAME STATUS PATTERN COMMAND...: the command ends with STATUS, and what it prints matches PATTERN (extended).
expect_run() {
  local name=$1 status=$2 pattern=$3 out rc
  shift 3
  out=$("$@" 2>&1 </dev/null) && rc=0 || rc=$?
  if [ "$rc" -ne "$status" ]; then
    not_ok "$name" "exit status $rc, not $status: $out"
  elif ! grep -qE -- "$pattern" <<<"$out"; then
    not_ok "$name" "does not match $pattern: $out"
  else
    ok "$name"
  fi
}
finish() {
  echo "1..$tap_count"
  [ "$tap_failed" -eq 0 ]
}
: "${top_srcdir:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
: "${top_builddir:=$top_srcdir/build}"
# The files of the project: what git tracks in a checkout; in an unpacked tarball, all but generated ones. (A tarball that
# make distcheck has unpacked lies inside of a checkout, whose git ignores it.)
project_files() {
  if [ "$(git -C "$top_srcdir" rev-parse --show-toplevel 2>/dev/null)" = "$(realpath "$top_srcdir")" ]; then
    (cd "$top_srcdir" && git ls-files --cached --others --exclude-standard)
  else
    files_of_tarball "$top_srcdir"
  fi | while read -r f; do
    [ -f "$top_srcdir/$f" ] && echo "$f"
  done
}
# files_of_tarball FOLDER: the files of an unpacked tarball without those that ./bootstrap, a build or a test made.
files_of_tarball() {
  (cd "$1" && find . \( -path './build*' -o -path ./_build -o -path ./_inst -o -path ./autom4te.cache -o -name __pycache__ \) -prune -o \
    -type f -not -path './m4/l*.m4' -not -path ./Makefile.in -not -path ./aclocal.m4 -not -path ./configure \
    -not -path ./config.h.in -printf '%P\n')
}
