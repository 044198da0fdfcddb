# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For tests of dlrun --servers MIN:MAX. top_srcdir and top_builddir are set; until_servers needs $dlctl.
# shellcheck disable=SC2154

build_pool_count() { # into $BATS_FILE_TMPDIR
  "${CXX:-g++}" -std=c++17 -Wall -Wextra -Werror -O2 "$top_srcdir/tests/cli/pool_count.cpp" -I"$top_srcdir/launcher/pool/include" \
    -L"$top_builddir/launcher/pool/.libs" -ldlpool -Wl,-rpath,"$top_builddir/launcher/pool/.libs" -o "$BATS_FILE_TMPDIR/pool_count"
}

# The pool of the job in the folder job has so many servers, none more is wanted, and no slot moves; for at most a minute.
until_servers() { # NUMBER
  local i
  for ((i = 0; i < 600; i++)); do
    [[ $("$dlctl" status job --json 2>/dev/null | jq -r '.[0].servers') =~ ^"$1 server"s?" of "[0-9]+" to "[0-9]+$ ]] && return 0
    sleep 0.1
  done
  echo "no $1 servers within a minute:" >&2
  "$dlctl" status job >&2 || true
  cat out >&2
  return 1
}
