# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
cmd_status() {
  need_sandbox
  local name
  for name in $(daemon_names); do printf '%-14s %s\n' "$name" "$(recorded_pid "$name" || echo dead)"; done
}
