#!/usr/bin/env bash
# The rooms' include directions hold (the table of CONTRIBUTING.md): the longest matching room wins.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
cd "$top_srcdir" || exit 1

# ROOM | the rooms it may include besides itself. A room is a folder of the first two levels; NAME/. is the files of NAME itself.
rules='
common/base             |
common/json             |
common/contract         | common/base
common/process          | common/base
common/scaling          | common/base common/contract
common/cli              | common/base
common/site             | common/base common/contract
common/.                | common/base common/contract common/json
common/remote           | common/base common/contract common/json common/process
frameworks/.            | common/base common/contract common/site
checkpoint/include      |
checkpoint/format       | common/base common/contract common/json checkpoint/include
checkpoint/retention    | common/contract checkpoint/format
checkpoint/store        | common/base checkpoint/format checkpoint/retention
checkpoint/group        | common/base checkpoint/format checkpoint/store
checkpoint/device       | common/base checkpoint/format
checkpoint/transport    | common/base checkpoint/format checkpoint/store checkpoint/group
checkpoint/levels       | common/base checkpoint/format checkpoint/retention checkpoint/store checkpoint/group checkpoint/transport
checkpoint/engine       | common/base checkpoint/format checkpoint/store checkpoint/device checkpoint/levels
checkpoint/read         | common/base checkpoint/format checkpoint/store
checkpoint/client       | common/base common/contract checkpoint/include checkpoint/format checkpoint/retention checkpoint/store checkpoint/read checkpoint/group checkpoint/device checkpoint/transport checkpoint/levels checkpoint/engine
checkpoint/objects      | common/base common/contract common/remote checkpoint/levels
checkpoint/convert      | common/base common/json checkpoint/format checkpoint/store checkpoint/read
checkpoint/tools        | common/base common/cli common/contract common/json common/process checkpoint/include checkpoint/format checkpoint/store checkpoint/levels checkpoint/read checkpoint/convert checkpoint/objects
launcher/gpu            | common/json
launcher/bind           | common/base common/process
launcher/collectives    | common/base common/contract common/json
launcher/pool           | common/base common/contract
launcher/rendezvous     | common/base
launcher/slurm_cli      | common/base common/process
launcher/record         | common/base common/contract common/json common/scaling
launcher/logs           | common/base launcher/record
launcher/data           | common/base common/cli common/contract common/json common/process common/remote launcher/record
launcher/metrics        | common/base common/contract common/json
launcher/plot           | common/base common/cli
launcher/report         | common/base common/cli common/json launcher/plot launcher/record
launcher/top            | common/base common/json launcher/plot
launcher/image          | common/base common/contract common/process frameworks/.
launcher/protocol       | common/base common/contract common/json frameworks/. launcher/image
launcher/plan           | common/base common/contract common/json common/site frameworks/. launcher/bind launcher/image launcher/slurm_cli
launcher/pmix           | common/base common/contract common/json launcher/protocol
launcher/agent          | common/base common/contract common/json common/process frameworks/. launcher/protocol
launcher/runs           | common/base common/contract common/json launcher/plan launcher/record
launcher/guard          | common/base common/contract common/process launcher/protocol launcher/record launcher/slurm_cli
launcher/options        | common/base common/cli common/contract common/process common/site frameworks/. launcher/metrics launcher/plan launcher/record launcher/slurm_cli
launcher/preflight      | common/base common/cli common/contract common/json common/process launcher/options launcher/plan launcher/record launcher/slurm_cli
launcher/submit         | common/base common/contract common/json common/process common/site launcher/options launcher/plan launcher/record
launcher/use            | common/base launcher/protocol
launcher/supervise      | common/base common/contract common/json common/process common/scaling common/site frameworks/. checkpoint/include launcher/guard launcher/image launcher/logs launcher/metrics launcher/plan launcher/pmix launcher/pool launcher/protocol launcher/record launcher/rendezvous launcher/runs launcher/slurm_cli launcher/use
launcher/.              | common/base common/contract launcher/guard launcher/options launcher/plan launcher/preflight launcher/record launcher/runs launcher/submit launcher/supervise
launcher/ctl            | common/base common/cli common/contract common/json common/process common/scaling common/site frameworks/. launcher/logs launcher/metrics launcher/plot launcher/protocol launcher/record launcher/report launcher/slurm_cli launcher/top slurm-plugin/observe slurm-plugin/policy
slurm-plugin/.          | common/base common/contract
slurm-plugin/network    | common/base common/process common/site
slurm-plugin/spank      | common/base common/contract common/site frameworks/. slurm-plugin/. slurm-plugin/network
slurm-plugin/policy     | common/base common/contract common/site
slurm-plugin/job_submit | common/base common/contract common/site frameworks/. slurm-plugin/. slurm-plugin/policy
slurm-plugin/sim        | common/base common/cli common/json slurm-plugin/policy
slurm-plugin/observe    | common/base common/contract common/process common/scaling common/site slurm-plugin/policy
slurm-plugin/policyd    | common/base common/cli common/contract common/json common/scaling common/site slurm-plugin/policy slurm-plugin/observe
'
includes=$(project_files | grep -E '\.(h|hpp|c|cpp)$' | while read -r file; do
  grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]+"' "$file" | sed -E "s|^([0-9]+):.*\"([^\"]+)\".*|$file \1 \2|"
done | awk '
  function room_of(path,   part) { return split(path, part, "/") > 2 ? part[1] "/" part[2] : part[1] "/." }
  # An installed header names its neighbours as they lie once installed.
  $1 ~ /^[^/]+\/([^/]+\/)?include\// && $3 !~ /\// { folder = $1; sub(/[^/]*$/, "", folder); $3 = folder $3 }
  $3 != "config.h" { print room_of($1), room_of($3), $1 ":" $2, $3 }')
# FOLDER1 FOLDER2, where a file of FOLDER1 includes one of FOLDER2, whatever their depth; a folder is not part of the one that it lies in.
folders=$(awk '
  { from = $3; to = $4; sub(/\/[^\/]*$/, "", from); sub(/\/[^\/]*$/, "", to) }
  from != to && from !~ /^tests(\/|$)/ { print from, to }' <<<"$includes" | sort -u)
# Tests may include anything.
findings=$(awk -v rules="$rules" '
  BEGIN {
    n = split(rules, line, "\n")
    for (i = 1; i <= n; i++) if (split(line[i], f, "|") == 2) {
      gsub(/ /, "", f[1]); known[f[1]] = 1
      m = split(f[2], allowed, " ")
      for (j = 1; j <= m; j++) may[f[1], allowed[j]] = 1
    }
  }
  $1 == $2 || $1 ~ /^tests\// { next }
  !($2 in known) { print $3 ": \"" $4 "\" is not written from the top of the tree, or its room has no row in this file"; next }
  !($1 in known) { print $3 ": the room " $1 " has no row in this file"; next }
  !(($1, $2) in may) { print $3 ": " $1 " may not include " $4 }' <<<"$includes")
check "rooms include only the rooms below them" "$findings"
check "no circle of rooms is allowed" "$(awk -F'|' 'NF == 2 { n = split($2, to, " "); for (i = 1; i <= n; i++) print $1, to[i] }' <<<"$rules" | tsort 2>&1 >/dev/null)"
check "no circle of folders is there, at any depth" "$(tsort <<<"$folders" 2>&1 >/dev/null)"

heavy=$(project_files | grep -E '^(slurm-plugin|common/(base|contract|site)|frameworks)/.*\.(h|cpp)$' | grep -v '/example/' |
  xargs -r grep -nE '#[[:space:]]*include[[:space:]]*<(mpi|pmix|hdf5|H5|cuda|nccl|uv|thread|iostream)' /dev/null)
check "nothing heavy (MPI, PMIx, HDF5, CUDA, NCCL, libuv, threads) is included in what Slurm's daemons load" "$heavy"

slurm=$(project_files | grep -E '\.(h|c|cpp)$' | grep -vE '^(slurm-plugin/(slurm_abi|observe/slurm_client)\.|tests/)' |
  xargs -r grep -nE '#[[:space:]]*include[[:space:]]*[<"]slurm/' /dev/null)
check "only slurm_abi.h and observe/slurm_client include Slurm's headers" "$slurm"

linked=$(project_files | grep -E '^launcher/.*\.(h|c|cpp)$' |
  xargs -r grep -nE '#[[:space:]]*include[[:space:]]*"slurm-plugin/observe/slurm_client\.' /dev/null)
check "the launcher links no libslurm: it includes nothing of observe/slurm_client" "$linked"
finish
