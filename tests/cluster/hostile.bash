# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016  # lib.bash has $stage; what mallory runs expands there
# Helpers of the attacks.

# hostile_up [lines of dl.toml, of its last tenant or behind it]: a sandbox of three nodes with two GPUs each. bio owns one of these and may
# borrow six, lab owns five. guarded, which may run little, and sealed, whose jobs speak to their own nodes alone, own one each on top of these.
hostile_up() {
  local toml=$BATS_FILE_TMPDIR/dl.toml
  cat >"$toml" <<END
[nodes]
gpus_per_node = 2
[tiers.guaranteed]
partition = "batch"
[tiers.borrow]
partition = "batch"
[quota]
min_run = "1s"
grace = "6s"
[tenants.bio]
quota = 1
borrow_limit = 6
[tenants.lab]
quota = 5
[network]
enforce = "nftables"
[tenants.sealed]
quota = 1
network = "job"
[tenants.guarded]
quota = 1
max_job_gpus = 2
frameworks = ["generic"]
images = ["/images/*.sif"]
$*
END
  cluster_up --nodes 3 --gpus-per-node 2 --dl-toml "$toml" --conf KillWait=2 \
    --conf Licenses=dl_bio:1,dl_bio/borrow:6,dl_lab:5,dl_guarded:1,dl_sealed:1
}

# hostile_end: what each test leaves behind is ended, and the nodes are free for the next one.
hostile_end() {
  stop_daemon
  stop_listeners
  [[ -n ${BATS_TEST_COMPLETED:-} || ! -e daemon.log ]] || tail -n 60 daemon.log >&2
  [[ -n ${DL_NO_CLUSTER:-} ]] || on_login scancel -u games
  cluster_teardown
  [[ -n ${DL_NO_CLUSTER:-} ]] || wait_nodes idle 60
}

# mallory COMMAND…: as the attacker.
mallory() { as_user "$(some_user)" "$@"; }
dlctl() { on_login "$stage/bin/dlctl" "$@"; }
# borrow [options and script of sbatch]: a job of mallory's on lent GPUs; prints its id. What sbatch said is in ./said.
borrow() {
  local out
  out=$(mallory sbatch --parsable -o /dev/null -A bio "$@" 2>said) || { cat said >&2; return 1; }
  echo "${out%%;*}"
}

start_daemon() {
  local before
  before=$(starts_of_daemon)
  dl_sandbox exec -- bash -c 'echo $$ >'"$PWD"'/daemon.pid; exec "$@"' -- "$stage/sbin/dlpolicyd" --pidfile "$PWD/lock" \
    --metrics-file "$PWD/metrics.prom" --verbose >>daemon.log 2>&1 3>&- &
  wait_started "$before"
}
stop_daemon() { [[ ! -e daemon.pid ]] || { kill_process "$(cat daemon.pid)" 2>/dev/null; rm -f daemon.pid; } || true; }
# listen_on HOST COMMAND…: in the background on a node, or on login; stop_listeners ends all of them.
listen_on() {
  local -a where=()
  [[ $1 == login ]] || where=(--node "$1")
  dl_sandbox exec "${where[@]}" -- bash -c 'echo $$ >>'"$PWD"'/listeners; exec "$@"' -- "${@:2}" 3>&- &
}
stop_listeners() {
  local pid
  [[ -e listeners ]] || return 0
  while read -r pid; do
    # Not one of another's that has got the number meanwhile.
    if grep -qsaF -- "$PWD" "/proc/$pid/cmdline"; then kill -9 "$pid" || true; fi
  done <listeners
}
charged_as_borrowed() { [[ $(job_field "$1" AdminComment) == *' charge=borrowed'* ]]; }
metric_is() { grep -qxE "$1" metrics.prom; }
nobody_pending() { [[ -z $(on_login squeue -h -t PENDING,CONFIGURING -o %i -u "$(some_user)") ]]; }

# gpus_of JOB: how many GPUs Slurm has given it, by their numbers on each node: "Nodes=n[1-2] … GRES=gpu:2(IDX:0-1)" are four.
gpus_of() {
  on_login scontrol show job -d "$1" | python3 -c 'import re, sys
def count(ranges):
    return sum(int(b or a) - int(a) + 1 for a, b in re.findall(r"(\d+)(?:-(\d+))?", ranges))
print(sum(count(nodes) * count(gpus) for nodes, gpus in re.findall(r"Nodes=n\[?([-\d,]+)\]? .*GRES=gpu\S*IDX:([-\d,]+)\)", sys.stdin.read())))'
}

# refuse_all LEAST <table: each line "expected words | command of mallory's": all are refused, each with such words, in one line
# of ours or of Slurm's, and no job comes of it. LEAST: the table has at least so many lines.
refuse_all() {
  local words command out bad=0 count=0 before
  before=$(on_login squeue -h -t all -o %i | wc -l)
  while IFS='|' read -r words command; do
    words=$(sed -E 's/^ +| +$//g' <<<"$words")
    [[ -n $words && $words != '#'* ]] || continue
    ((++count))
    if out=$(mallory timeout 20 bash -c "$command" 2>&1 </dev/null); then
      echo "accepted: $command"
      echo "$out"
      bad=1
    elif ! grep -qE -- "$words" <<<"$out"; then
      printf 'refused, but not with "%s": %s\n%s\n' "$words" "$command" "$out"
      bad=1
    fi
  done
  [ "$(on_login squeue -h -t all -o %i | wc -l)" = "$before" ] || { echo "a job came of it"; bad=1; }
  echo "$count attacks"
  ((count >= $1)) && return $bad
}

# bounded OUT COMMAND…: root's command on the login host, which must end within 10 s and use less than 160 MB; what it prints
# goes to OUT.
bounded() {
  local out=$1
  shift
  on_login python3 - "$out" "$@" <<'END'
import resource, subprocess, sys
with open(sys.argv[1], "wb") as out:
    try:
        subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=10)
    except subprocess.TimeoutExpired:
        sys.exit("took more than 10 s: " + " ".join(sys.argv[2:]))
used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
sys.exit(f"used {used} MB: " + " ".join(sys.argv[2:]) if used > 160 else 0)
END
}

# forge_job_dir DIR: as mallory, what dlrun leaves behind, as far as dlctl looks at it.
forge_job_dir() {
  mallory mkdir -p "$1/logs/attempt-1" "$1/results"
  mallory bash -c 'echo "{\"time_ms\":1,\"attempt\":1,\"state\":\"PROCESSING\"}" >"$1/events.jsonl"
    echo "{\"world_size\":1,\"framework\":\"generic\"}" >"$1/plan.json"; echo good >"$1/logs/attempt-1/learner-0.log"' - "$1"
}
