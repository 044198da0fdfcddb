# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154  # the parts share their variables
# What runs: for people, and with --json for programs.

# slurm_states: lines "NODE STATE", nothing while slurmctld does not answer.
slurm_states() {
  is_gone slurmctld || SLURM_CONF=$SB_DIR/etc/slurm.conf timeout 5 sinfo -h -N -o '%N %T' 2>/dev/null | sort -u
}
json_pid() { recorded_pid "$1" || echo null; }

cmd_status() {
  local json=no name running=no
  case ${1:-} in
    --json) json=yes && shift ;;
  esac
  (($# == 0)) || usage_error "status: unknown argument '$1'; allowed: --json"
  need_sandbox
  ! holder_alive login || running=yes
  local -A state=()
  while read -r name rest; do state[$name]=$rest; done < <(slurm_states)
  if [[ $json == yes ]]; then status_json; else status_text; fi
  [[ $running == yes ]]
}
network_of() {
  if ((EUID != 0)) || [[ $running != yes ]]; then echo unknown; elif is_cut "$1"; then echo cut; else echo plugged; fi
}

status_text() {
  local name
  echo "sandbox '$SB_NAME' in $SB_DIR: $([[ $running == yes ]] && echo "up" || echo "not running")"
  echo "network $SB_NET.0/24, cgroups $SB_CGROUP, GPUs $SB_GPU_KIND, plugins ${SB_PLUGINS:-none}"
  printf '\n%-12s %-9s\n' DAEMON PID
  for name in $(daemon_names); do printf '%-12s %-9s\n' "$name" "$(recorded_pid "$name" || echo dead)"; done
  printf '\n%-12s %-15s %-9s %s\n' NODE ADDRESS NETWORK "SLURM STATE"
  for name in $(node_names); do printf '%-12s %-15s %-9s %s\n' "$name" "$(node_ip "$name")" "$(network_of "$name")" "${state[$name]:-unknown}"; done
}
# All values are of characters that JSON needs no escapes for: the options are checked to be so.
status_json() {
  local name comma=''
  printf '{"name": "%s", "dir": "%s", "running": %s, "network": "%s.0/24", "cgroups": %s, "gpus": "%s", "daemons": {' "$SB_NAME" "$SB_DIR" \
    "$([[ $running == yes ]] && echo true || echo false)" "$SB_NET" "$([[ $SB_CGROUP == yes ]] && echo true || echo false)" "$SB_GPU_KIND"
  for name in $(daemon_names); do
    printf '%s"%s": %s' "$comma" "$name" "$(json_pid "$name")"
    comma=', '
  done
  printf '}, "nodes": ['
  comma=
  for name in $(node_names); do
    printf '%s{"name": "%s", "address": "%s", "network": "%s", "state": "%s"}' "$comma" "$name" "$(node_ip "$name")" "$(network_of "$name")" "${state[$name]:-unknown}"
    comma=', '
  done
  printf ']}\n'
}
