#!/usr/bin/env bash
# sbatch, srun and salloc know the flags, and refuse bad values, without a controller in sight.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
for program in sbatch srun salloc; do
  command -v "$program" >/dev/null || {
    skip "sbatch, srun and salloc know the flags" "$program is not installed"
    finish
    exit 0
  }
done
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
plugin=$top_builddir/slurm-plugin/.libs/spank_dl.so
mkdir "$folder/frameworks.d"
cp "$top_srcdir"/frameworks/*/*.toml "$folder/frameworks.d/"
echo "required $plugin" >"$folder/plugstack.conf"
printf '[frameworks]\ncatalogue = ["%s"]\n' "$folder/frameworks.d" >"$folder/dl.toml"
cat >"$folder/slurm.conf" <<END
ClusterName=none
SlurmctldHost=localhost
SlurmctldPort=1
PlugStackConfig=$folder/plugstack.conf
GresTypes=gpu
SelectType=select/cons_tres
NodeName=n1
PartitionName=p Nodes=n1
END
export SLURM_CONF=$folder/slurm.conf COLUMNS=200
unset "${!DL_@}" "${!SLURM_JOB@}" "${!SLURM_SPANK@}"

flags=$(grep -oE '"dl-[a-z-]+"' "$top_srcdir/slurm-plugin/options.cpp" | tr -d '"' | sort -u)
for program in sbatch srun salloc; do
  help=$("$program" --help 2>&1)
  check "$program --help lists every flag" "$(for flag in $flags; do
    grep -qE -- "^ *--$flag=" <<<"$help" || echo "--$flag is not in '$program --help'"
  done)"
  check "$program --help says what the flags are for" "$(for flag in $flags; do
    grep -A2 -E -- "^ *--$flag=" <<<"$help" | grep -q '\[dl\] ' || echo "--$flag has no text"
  done)"
done

# refuses WHAT STATUS-PATTERN MESSAGE COMMAND...: fails with a line that begins with the message.
refuses() {
  local what=$1 message=$2 output status
  shift 2
  output=$(timeout 30 "$@" 2>&1 </dev/null)
  status=$?
  check "$what" "$(
    # Slurm's own status for a bad option is 1 or 255, depending on where it notices; no signal, no time limit.
    case $status in 1 | 255) ;; *) echo "exit status $status" ;; esac
    grep -qF -- "error: dl: $message" <<<"$output" || printf 'expected "dl: %s", got:\n%s\n' "$message" "$output"
  )"
}
while IFS='|' read -r value message; do
  for program in sbatch srun salloc; do
    command=(true)
    [ "$program" != sbatch ] || command=(--wrap true)
    refuses "$program $value is refused" "$message" "$program" "$value" "${command[@]}"
  done
done <<'END'
--dl-framework=torch|--dl-framework: 'torch' is not a known framework; known: cpp, dllearner, generic, 
--dl-framework=a/b|--dl-framework: 'a/b' is not the name of a framework; allowed: NAME[:VERSION]
--dl-framework=|--dl-framework: the value is empty; allowed: NAME[:VERSION]
--dl-learners=0|--dl-learners: '0' is not a number of learners; allowed: N or MIN:MAX
--dl-learners=4:2|--dl-learners: '4:2' has a MIN above its MAX; allowed: N or MIN:MAX
--dl-servers=few|--dl-servers: 'few' is not a number of parameter servers; allowed: a whole number from 0 to 100000
--dl-servers=2|--dl-servers=2 says nothing of the learners that use them; allowed: --dl-servers together with --dl-learners
--dl-gpus=-1|--dl-gpus: '-1' is not a number of GPUs; allowed: [TYPE:]N
--dl-gpus=a100|--dl-gpus: 'a100' is not a number of GPUs; allowed: [TYPE:]N
--dl-gpus=a100:0|--dl-gpus: a CPU job has no GPUs of type 'a100'
--dl-checkpoint=ck,every=soon|--dl-checkpoint: 'soon' is not an interval between checkpoints; allowed: every=TIME
--dl-checkpoint=ck,keep=0|--dl-checkpoint: '0' is not a number of checkpoints to keep; allowed: keep=N
--dl-checkpoint=,keep=1|--dl-checkpoint: ',keep=1' has no PATH; allowed: PATH
--dl-restarts=many|--dl-restarts: 'many' is not a number of restarts; allowed: a whole number from 0 to 1000
--dl-hang-timeout=soon|--dl-hang-timeout: 'soon' is not a time without progress; allowed: a TIME such as 30m, at most 365 days; 0 for none
--dl-metrics=loss|--dl-metrics: 'loss' names no value; allowed: at least one part with a name
--dl-metrics=%{FLAOT:loss}|--dl-metrics: '%{FLAOT:loss}' is no macro; allowed: %{FLOAT}
--dl-preflight=some|--dl-preflight: 'some' is not a kind of check; allowed: off, quick, full
--dl-image=|--dl-image: the value is empty; allowed: PATH
--dl-image=docker://debian|--dl-image: 'docker://debian' is not the path of a container image; allowed: PATH
--dl-image=/none.sqfs|--dl-image: '/none.sqfs': No such file or directory; allowed: a directory that holds a system
--dl-data=|--dl-data: the value is empty; allowed: SRC
--dl-data=s3://bucket|--dl-data: 's3://bucket' is an address that is not fetched; allowed: a path
--dl-data=https://ada:hunter2@host/a|--dl-data: the address carries a credential, which others could read in the job's record; allowed: a remote
--dl-data=https://host/a|--dl-data: 'https://host/a' has no checksum, so nobody can tell whether it is still the same; allowed: a URL
--dl-data=/none/digits|--dl-data: '/none/digits': No such file or directory
--dl-data=/none/sets.toml|--dl-data: open /none/sets.toml: No such file or directory
--dl-results=https://host/a|--dl-results: 'https://host/a' is not a place to store results; allowed: DEST
--dl-image=/etc|--dl-image: '/etc' is a directory without usr or bin, so no image; allowed: a directory
--dl-placement=heap|--dl-placement: 'heap' is not a placement; allowed: pack, spread
--dl-tier=cheap|--dl-tier: 'cheap' is not a tier; allowed: auto, guaranteed, borrow
END

cat >"$folder/script" <<'END'
#!/bin/sh
#SBATCH --dl-gpus=many
true
END
refuses "a bad #SBATCH line is refused" "--dl-gpus: 'many' is not a number of GPUs" sbatch "$folder/script"
refuses "a bad preset is refused, with the variable named" "DL_GPUS in the environment: 'x' is not a number of GPUs" \
  env DL_GPUS=x sbatch --wrap true
echo "required $plugin color=red" >"$folder/plugstack.conf"
refuses "an unknown argument in plugstack.conf is refused" \
  "plugstack.conf: 'color=red' is not an argument of spank_dl.so" sbatch --wrap true
finish
