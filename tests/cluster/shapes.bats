#!/usr/bin/env bats
# Batch scripts of other clusters (tests/cluster/scripts) run with the plugins loaded as they run without: none has a flag of
# ours, so none is changed, commented, saved or restarted. All are submitted at once. Accelerate, DeepSpeed and Apptainer are
# not installed where the tests run: in their place stand the commands that they themselves would issue.
# shellcheck disable=SC2016,SC2030,SC2031  # expanded by the shells of jobs; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

shapes=(torchrun_rdzv srun_python mpirun srun_bash_c array_sweep steps_and_wait usr1_requeue heredoc_python modules conda accelerate_launch
  deepspeed_hostfile apptainer chain gpus_by_hand srun_of_script)

# program NAME LINE…: in the PATH of the jobs.
program() {
  { echo '#!/bin/bash' && printf '%s\n' "${@:2}"; } >"bin/$1"
  chmod 755 "bin/$1"
}
make_programs() {
  mkdir -p bin miniconda3/etc/profile.d modulefiles/cuda
  program torchrun "# Debian's PyTorch 1.13 cannot read its own default of these options under Python 3.11" \
    'exec python3 -m torch.distributed.run --redirects 1 --tee 1 "$@"'
  program accelerate '# accelerate launch hands its workers to torch.distributed.run' 'shift' \
    'exec torchrun --nproc_per_node "$(($2 / $4))" --nnodes "$4" --rdzv_backend "$6" --rdzv_endpoint "$8:${10}" --rdzv_id 1 "${@:11}"'
  program deepspeed '# with --launcher=slurm it starts one task for each GPU by srun' \
    'for word; do case $word in --num_nodes=*) nodes=${word#*=} ;; --num_gpus=*) gpus=${word#*=} ;; train.py) break ;; esac; done' \
    'while [[ $1 != train.py ]]; do shift; done' 'exec srun -n $((nodes * gpus)) --ntasks-per-node=$gpus --overcommit python3 -u "$@"'
  program apptainer '# exec [options] IMAGE COMMAND…' 'shift; while [[ $1 == -* ]]; do [[ $1 == --bind ]] && shift; shift; done' \
    'echo "in $(basename "$1")"; shift; exec "$@"'
  echo 'module() { [[ $1 != load ]] || export CUDA_HOME=/opt/cuda-12.2; [[ $1 != list ]] || echo "modules: cuda/12.2 nccl"; }' >lmod.sh
  # Where environment-modules is installed, a login shell has the real command, which reads these.
  printf '#%%Module\nsetenv CUDA_HOME /opt/cuda-12.2\n' >modulefiles/cuda/12.2
  echo '#%Module' >modulefiles/nccl
  echo 'conda() { case $1 in activate) export CONDA_DEFAULT_ENV=$2 ;; deactivate) unset CONDA_DEFAULT_ENV ;; esac; }' >miniconda3/etc/profile.d/conda.sh
  ln -s "$(PATH=/usr/bin:/bin command -v python3)" bin/python
}

setup_file() {
  # Slurm's own default, 1, could not be told from a job that somebody made one that may be requeued.
  cluster_up --nodes 2 --gpus-per-node 4 --cpus-per-node 64 --conf JobRequeue=0
  [[ -z $DL_NO_CLUSTER ]] || return 0
  shapes_dir=$(work_folder)
  export shapes_dir
  cd "$shapes_dir" || return 1
  cp "$top_srcdir"/tests/cluster/scripts/* .
  make_programs
  torch=no
  /usr/bin/python3 -c 'import torch' 2>/dev/null && torch=yes
  export torch
  for shape in "${shapes[@]}"; do
    [[ $torch == yes ]] || ! needs_torch "$shape" || continue
    PATH=$PWD/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=$PWD LMOD_INIT=$PWD/lmod.sh MODULEPATH=$PWD/modulefiles OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 SECONDS_OF_WORK=200 submit "$shape.sbatch" >"$shape.job" || return 1
  done
  [[ $torch == no ]] || PATH=$PWD/bin:/usr/bin:/bin:/usr/sbin:/sbin submit --nodes=2 --gres=gpu:2 --output=torchrun_by_job.out torchrun_by_job.sbatch >torchrun_by_job.job || return 1
}
teardown_file() {
  cancel_all
  cluster_down
}
setup() {
  [[ -z ${DL_NO_CLUSTER:-} ]] || skip "$DL_NO_CLUSTER"
  cd "$shapes_dir" || return 1
}
teardown() { [[ -n ${BATS_TEST_COMPLETED:-} ]] || touch "$BATS_FILE_TMPDIR/failed"; }

needs_torch() { grep -qE 'train\.py' "$top_srcdir/tests/cluster/scripts/$1.sbatch"; }
# ended SHAPE: it has completed, and nothing of ours has touched it. Sets job.
ended() {
  [[ $torch == yes ]] || ! needs_torch "$1" || skip '/usr/bin/python3 has no PyTorch'
  job=$(cat "$1.job")
  wait_state "$job" COMPLETED,FAILED 150
  in_state "$job" COMPLETED || { tail -n 30 ./*"$job".out ./*."$job".err 2>/dev/null; return 1; }
  untouched
}
untouched() {
  [[ $(job_field "$job" Comment) =~ ^(\(null\))?$ ]]
  [ ! -e "dl-$job" ]
  [ "$(job_field "$job" Requeue)" = "${1:-0}" ]
}
# All ranks of train.py end with the same weights.
trained() {
  local said
  cat "$1"
  said=$(grep -hoE 'rank [0-9]+ of [0-9]+: weight [0-9.-]+' "$1")
  [ "$(grep -c . <<<"$said")" -eq "$2" ]
  [ "$(cut -d' ' -f2 <<<"$said" | sort -n | paste -sd ' ')" = "$(seq 0 $(($2 - 1)) | paste -sd ' ')" ]
  [ "$(cut -d' ' -f4- <<<"$said" | sort -u | wc -l)" -eq 1 ]
}

@test "srun torchrun with a c10d rendezvous on two nodes" {
  ended torchrun_rdzv
  trained "ddp-torchrun-$job.out" 4
}

@test "srun python with MASTER_ADDR and SLURM_PROCID" {
  ended srun_python
  trained "slurm-$job.out" 4
}

@test "mpirun over the nodes of the job" {
  ended mpirun
  cat "slurm-$job.out"
  [ "$(grep -o 'args --lr 0.1' "slurm-$job.out" | wc -l)" -eq 4 ] # mpirun may put two on one line
}

@test "srun bash -c that sets RANK" {
  ended srun_bash_c
  trained "srun_bash_c.sbatch.$job.out" 4
}

@test "an array of which two elements run at once" {
  ended array_sweep
  for i in 1 2 3 4; do
    wait_state "${job}_$i" COMPLETED 60
    assert_contains "$(cat "result_$i.txt")" "args $(sed -n "${i}p" params.txt | sed -E 's/lr=(.*) bs=(.*)/--lr \1 --bs \2/')"
  done
}

@test "several steps with & and wait, each with a GPU of its own" {
  ended steps_and_wait
  assert_contains "$(cat "slurm-$job.out")" 'all runs have ended'
  [ "$(cat run_*.log | grep -c '^task 0 of 1')" -eq 4 ]
  [ "$(cat run_*.log | grep '^on ' | sort | uniq -d | wc -l)" -eq 0 ]
}

@test "here documents as programs" {
  ended heredoc_python
  assert_contains "$(cat "slurm-$job.out")" 'batch 32 procid 0'
  assert_contains "$(cat "slurm-$job.out")" "outside of srun, job $job"
}

@test "environment modules in a login shell" {
  ended modules
  grep -q 'cuda/12\.2.*nccl' "slurm-$job.out" # what "module list" says, ours or the installed one
  [ "$(grep -c 'args --cuda /opt/cuda-12.2' "slurm-$job.out")" -eq 2 ]
}

@test "a conda environment" {
  ended conda
  assert_contains "$(cat "slurm-$job.out")" 'args --env torch'
}

@test "accelerate launch on two nodes" {
  ended accelerate_launch
  trained "slurm-$job.out" 4
}

@test "deepspeed with a hostfile" {
  ended deepspeed_hostfile
  trained "slurm-$job.out" 4
  [ ! -e "hostfile.$job" ]
}

@test "a container of apptainer" {
  ended apptainer
  [ "$(grep -c 'in pytorch.sif' "slurm-$job.out")" -eq 2 ]
  [ "$(grep -c 'args --image' "slurm-$job.out")" -eq 2 ]
}

@test "a chain of jobs by dependencies" {
  ended chain
  wait_file part_3.txt 'args --part 3' 90
}

@test "GPUs that the script hands out itself" {
  ended gpus_by_hand
  [ "$(grep -c 'args --seed' "slurm-$job.out")" -eq 2 ]
}

@test "what people type in a shell of salloc" {
  run on_login env -C "$PWD" PATH="$PWD/bin:/usr/bin:/bin" salloc --nodes=1 --ntasks=2 --gpus=2 --time=10 ./salloc_session.sbatch
  [ "$status" -eq 0 ]
  [ "$(grep -c 'args --interactive' <<<"$output")" -eq 2 ]
  assert_contains "$output" '^gpus [0-9],[0-9]$'
}

@test "a trap for USR1 that puts the job back" {
  job=$(cat usr1_requeue.job)
  wait_file "long-run-$job.out" 'caught USR1: requeue' 120
  wait_for 60 "it is back in the queue" eval '[ "$(job_field "$job" Restarts)" -eq 1 ]'
  untouched 1
}

@test "torchrun for as many GPUs as sbatch was asked for" {
  ended torchrun_by_job
  trained "torchrun_by_job.out" 4
}

@test "srun of a script that starts torchrun on each node" {
  ended srun_of_script
  trained "slurm-$job.out" 4
}
