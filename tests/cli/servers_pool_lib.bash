# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For tests of dlrun --servers MIN:MAX. top_srcdir and top_builddir are set; until_servers needs $dlctl.
# shellcheck disable=SC2154

build_pool_count() { # into $BATS_FILE_TMPDIR
  "${CXX:-g++}" -std=c++17 -Wall -Wextra -Werror -O2 "$top_srcdir/tests/cli/pool_count.cpp" -I"$top_srcdir/launcher/pool/include" \
    -L"$top_builddir/launcher/pool/.libs" -ldlpool -Wl,-rpath,"$top_builddir/launcher/pool/.libs" -o "$BATS_FILE_TMPDIR/pool_count"
}

# are_servers NUMBER: what `dlctl status --json` says (standard input) is that so many serve, no other number is wanted, and no slot moves.
are_servers() { jq -e --argjson n "$1" '.[0].servers | .serving == $n and .wanted == $n and .unsettled == 0' >/dev/null; }

# until_servers NUMBER: until it is so of the job in the folder job, a minute at most.
until_servers() {
  local i
  for ((i = 0; i < 600; i++)); do
    "$dlctl" status job --json 2>/dev/null | are_servers "$1" && return 0
    sleep 0.1
  done
  echo "no $1 servers within a minute:" >&2
  "$dlctl" status job >&2 || true
  cat out >&2
  return 1
}
