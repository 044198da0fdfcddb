#!/usr/bin/env bash
# Every program of the benchmarks and trials is linked, also those that are only built when somebody measures. Make builds them before it
# runs this test (see Makefile.inc beside it).
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"

mapfile -t programs < <(MAKEFLAGS='' make -s -C "$top_builddir" print-extra-programs)
check "make knows the programs of the benchmarks" "$([[ " ${programs[*]} " == *" tests/bench/policy/decide_once"* ]] || echo "it names ${programs[*]}")"
for program in "${programs[@]}"; do
  check "$program is built" "$([[ -x $top_builddir/$program ]] || echo "$top_builddir/$program is not there")"
done
finish
