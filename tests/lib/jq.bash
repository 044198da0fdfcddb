# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# jq with -e as jq 1.7 has it: status 4 where nothing was printed. jq 1.6 (Debian 12) then ends with 0, so that a test of what a program
# prints would pass when the program printed nothing.
jq() {
  if [[ " $*" != *" -e"* ]]; then
    command jq "$@"
    return
  fi
  local printed status=0
  printed=$(command jq "$@") || status=$?
  [[ -n $printed ]] || return "$((status == 0 ? 4 : status))"
  printf '%s\n' "$printed"
  return "$status"
}
