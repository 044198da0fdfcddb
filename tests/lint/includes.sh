#!/usr/bin/env bash
# The rooms' include directions hold (the table of CONTRIBUTING.md): the longest matching room wins.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
cd "$top_srcdir" || exit 1

# ROOM | what it may include besides itself
rules='
launcher/common            |
frameworks                 | launcher/common
checkpoint                 | launcher/common
launcher                   | launcher/common frameworks checkpoint/include
launcher/ctl               | launcher/common launcher/record launcher/slurm_cli launcher/supervise frameworks slurm-plugin/policy slurm-plugin/observe
slurm-plugin/policy        | launcher/common
slurm-plugin/sim           | launcher/common slurm-plugin/policy
slurm-plugin/observe       | launcher/common slurm-plugin/policy
slurm-plugin/policyd       | launcher/common slurm-plugin/policy slurm-plugin/observe
slurm-plugin               | launcher/common frameworks slurm-plugin/policy
tests                      | launcher frameworks checkpoint slurm-plugin tests
'
findings=$(project_files | grep -E '\.(h|hpp|c|cpp)$' | while read -r file; do
  grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]+"' "$file" | sed -E "s|^([0-9]+):.*\"([^\"]+)\".*|$file \1 \2|"
done | awk -v rules="$rules" '
  BEGIN {
    n = split(rules, line, "\n")
    for (i = 1; i <= n; i++) if (split(line[i], f, "|") == 2) {
      gsub(/ /, "", f[1]); room[++rooms] = f[1]; may[f[1]] = f[2]
    }
  }
  function room_of(path,   i, best) {
    best = ""
    for (i = 1; i <= rooms; i++) if (index(path, room[i] "/") == 1 && length(room[i]) > length(best)) best = room[i]
    return best
  }
  {
    from = room_of($1); target = $3
    if (target == "config.h") next
    to = room_of(target)
    if (to == "") { print $1 ":" $2 ": \"" target "\" is not written from the top of the tree"; next }
    if (from == "" || from == to) next
    m = split(may[from], allowed, " "); good = 0
    for (i = 1; i <= m; i++) if (index(target, allowed[i] "/") == 1 && !(allowed[i] == "launcher" && from != "tests")) good = 1
    if (!good) print $1 ":" $2 ": " from " may not include " target
  }')
check "rooms include only the rooms below them" "$findings"

heavy=$(project_files | grep -E '^(slurm-plugin|launcher/common|frameworks)/.*\.(h|cpp)$' | grep -v '/example/' |
  xargs -r grep -nE '#[[:space:]]*include[[:space:]]*<(mpi|pmix|hdf5|H5|cuda|nccl|uv|thread|iostream)' /dev/null)
check "nothing heavy (MPI, PMIx, HDF5, CUDA, NCCL, libuv, threads) is included in what Slurm's daemons load" "$heavy"

slurm=$(project_files | grep -E '\.(h|c|cpp)$' | grep -vE '^(slurm-plugin/(slurm_abi|observe/slurm_client)\.|tests/)' |
  xargs -r grep -nE '#[[:space:]]*include[[:space:]]*[<"]slurm/' /dev/null)
check "only slurm_abi.h and observe/slurm_client include Slurm's headers" "$slurm"
finish
