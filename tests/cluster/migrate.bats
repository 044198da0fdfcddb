#!/usr/bin/env bats
# dlctl migrate on a real Slurm: batch scripts of other clusters (tests/cluster/scripts) are migrated, submitted without a look,
# and train with all their ranks.
# shellcheck disable=SC2016  # expanded by the shells of jobs
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 2 --gpus-per-node 2 --cpus-per-node 8; }
teardown_file() { cluster_down; }
# The python3 of the scripts is Debian's, whatever else comes first in PATH.
setup() {
  cluster_setup
  mkdir bin
  ln -s /usr/bin/python3 bin/python3
  cp "$top_srcdir"/tests/cluster/scripts/* .
}
teardown() {
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || tail -n 20 -- *.out 2>/dev/null || true
  cluster_teardown
}

migrate() { on_login env -C "$PWD" PATH="$PWD/bin:$stage/bin:$PATH" "$stage/bin/dlctl" migrate "$@"; }
# migrated NAME [OPTION-OF-SBATCH...]: submits what becomes of NAME.sbatch; prints the job's id.
migrated() {
  migrate "$1.sbatch" --write "$1.dl" 2>"$1.said" || { cat "$1.said" >&2; return 1; }
  on_login env -C "$PWD" PATH="$PWD/bin:$stage/bin:$PATH" sbatch --parsable --output="$1.out" --error="$1.out" "${@:2}" "$1.dl" 2>>"$1.said" || { cat "$1.said" "$1.dl" >&2; return 1; }
}
# ranks NAME: how many ranks of how many say what they have trained, each once: "4/4".
ranks() {
  local said
  said=$(sed -nE 's/.*rank ([0-9]+) of ([0-9]+): weight ([0-9.]+) .*/\1 \2 \3/p' "$1.out" | sort -u)
  echo "$(cut -d' ' -f1 <<<"$said" | sort -u | grep -c .)/$(cut -d' ' -f2 <<<"$said" | sort -u)/$(cut -d' ' -f3 <<<"$said" | sort -u | wc -l)"
}

all_written() { [[ -e result_1.txt && -e result_2.txt && -e result_3.txt && -e result_4.txt ]]; }

@test "torchrun, accelerate, deepspeed, srun bash -c and srun python become dlrun, and all ranks train the same weights" {
  /usr/bin/python3 -c 'import torch' 2>/dev/null || skip "/usr/bin/python3 has no PyTorch"
  local name job
  for name in torchrun_rdzv accelerate_launch deepspeed_hostfile srun_bash_c srun_python; do
    job=$(migrated "$name")
    wait_state "$job" COMPLETED 100
    [ "$(ranks "$name")" = 4/4/1 ] || { cat "$name.out" "$name.dl"; return 1; }
  done
}

@test "where sbatch's command line says how many nodes and GPUs there are, dlrun takes what the script computes of them" {
  /usr/bin/python3 -c 'import torch' 2>/dev/null || skip "/usr/bin/python3 has no PyTorch"
  job=$(migrated torchrun_by_job --nodes=2 --gres=gpu:2)
  wait_state "$job" COMPLETED 100
  [ "$(ranks torchrun_by_job)" = 4/4/1 ] || { cat torchrun_by_job.out torchrun_by_job.dl; return 1; }
  rm torchrun_by_job.dl
  job=$(migrated torchrun_by_job --nodes=1 --gres=gpu:1)
  wait_state "$job" COMPLETED 100
  [ "$(ranks torchrun_by_job)" = 1/1/1 ] || { cat torchrun_by_job.out torchrun_by_job.dl; return 1; }
}

@test "a script of the site's that starts torchrun on each node still does, and all ranks train the same weights" {
  /usr/bin/python3 -c 'import torch' 2>/dev/null || skip "/usr/bin/python3 has no PyTorch"
  job=$(migrated srun_of_script)
  wait_state "$job" COMPLETED 100
  [ "$(ranks srun_of_script)" = 4/4/1 ] || { cat srun_of_script.out srun_of_script.dl; return 1; }
}

@test "mpirun, a heredoc and an array of one python without a launcher run as many learners as they had tasks" {
  job=$(migrated mpirun)
  other=$(migrated array_sweep)
  here=$(migrated heredoc_python)
  wait_state "$job" COMPLETED 60
  [ "$(grep -cE 'task [0-3] of 4, args --lr 0.1' mpirun.out)" -eq 4 ]
  wait_state "$here" COMPLETED 60
  grep -q 'batch 32 procid 0' heredoc_python.out
  grep -q "outside of srun, job $here" heredoc_python.out
  wait_for 60 "all elements of the sweep have written" all_written
  grep -q 'task 0 of 1, args ' result_1.txt
  [ -n "$other" ]
}

# script NAME LINE...: a batch script of two nodes with two GPUs each.
script() { printf '%s\n' '#!/bin/bash' '#SBATCH --time=10' "${@:2}" >"$1.sbatch"; }

@test "a loop of ssh, a program in a here document and sbatch --wrap become dlrun, and all ranks train" {
  /usr/bin/python3 -c 'import torch' 2>/dev/null || skip "/usr/bin/python3 has no PyTorch"
  script ssh '#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=2' 'rank=0' 'for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do' \
    '  ssh "$node" "cd $PWD; torchrun --nnodes=2 --nproc_per_node=2 --node_rank=$rank --master_addr=$(hostname) --master_port=29510 train.py" &' \
    '  rank=$((rank + 1))' 'done' 'wait'
  script here '#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=2' "srun python3 - a 'b c' <<'EOF' || exit 1" 'import sys, torch.distributed as dist' \
    'dist.init_process_group("gloo")' 'print(f"rank {dist.get_rank()} of {dist.get_world_size()}: it'"'"'s {sys.argv[1:]}", flush=True)' 'EOF' 'echo after'
  ssh_job=$(migrated ssh)
  here_job=$(migrated here)
  wait_state "$ssh_job" COMPLETED 100
  [ "$(ranks ssh)" = 4/4/1 ] || { cat ssh.out ssh.dl; return 1; }
  wait_state "$here_job" COMPLETED 100
  [ "$(grep -cE "rank [01] of 2: it's \['a', 'b c'\]" here.out)" -eq 2 ] || { cat here.out here.dl; return 1; }
  grep -q '^after$' here.out
  echo 'sbatch --parsable --output=wrap.out --time=10 --nodes=1 --ntasks-per-node=1 --gpus-per-node=2 --wrap="torchrun --nproc_per_node=2 train.py"' >wrap.sbatch
  migrate wrap.sbatch --write wrap.dl
  wrap_job=$(on_login env -C "$PWD" PATH="$PWD/bin:$stage/bin:$PATH" bash wrap.dl 2>wrap.said)
  wait_state "$wrap_job" COMPLETED 100
  [ "$(ranks wrap)" = 2/2/1 ] || { cat wrap.out wrap.dl wrap.said; return 1; }
}

@test "a task that saw one GPU alone still does, and what stands behind a launch runs once on each node" {
  script own '#SBATCH --ntasks=2 --nodes=1 --gpus-per-task=1' 'srun python3 sees.py'
  printf '%s\n' 'import os; os.write(1, ("sees %s %s\n" % (os.environ["CUDA_VISIBLE_DEVICES"], os.environ.get("LOCAL" + "_RANK"))).encode())' >sees.py
  script tail '#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=2' "srun bash -c 'cd . && torchrun --nnodes=2 --nproc_per_node=2 --rdzv_endpoint=\$h:1 work.py && bash behind.sh'"
  echo 'echo "behind on $(hostname), rank ${RANK:-none}"' >behind.sh
  own_job=$(migrated own)
  tail_job=$(migrated tail)
  wait_state "$own_job" COMPLETED 60
  [ "$(grep -oE 'sees [0-9]+ None' own.out | sort -u | wc -l)" -eq 2 ] || { cat own.out own.dl; return 1; }
  wait_state "$tail_job" COMPLETED 60
  [ "$(grep -oE 'behind on n[12], rank none' tail.out | sort -u | wc -l)" -eq 2 ] || { cat tail.out tail.dl; return 1; }
  [ "$(grep -c 'behind on' tail.out)" -eq 2 ]
}

@test "what xargs runs at once has GPUs of its own, and one process of another branch has all of its node" {
  script many '#SBATCH --nodes=1 --ntasks-per-node=1 --gpus-per-node=2' "printf '1\\n2\\n' | xargs -P 2 -I{} python3 both.py {}"
  # Each waits until the other runs, too. Python without a buffer, as under dlrun, would write a line in pieces.
  printf '%s\n' 'import os, sys, time' 'own = sys.argv[1]; open("runs_" + own, "w").close()' \
    'while not os.path.exists("runs_" + str(3 - int(own))): time.sleep(0.05)' 'os.write(1, ("sees %s %s\n" % (os.environ["CUDA_VISIBLE_DEVICES"], os.environ.get("RA" + "NK"))).encode())' >both.py
  script branch '#SBATCH --nodes=1 --ntasks-per-node=1 --gpus-per-node=2' 'if [ -n "$1" ]; then' '  srun torchrun --nproc_per_node=2 work.py' 'else' '  srun python3 all.py' 'fi'
  echo 'import os; print("sees", os.environ["CUDA_VISIBLE_DEVICES"], os.environ.get("RA" + "NK"), flush=True)' >all.py
  many_job=$(migrated many)
  branch_job=$(migrated branch)
  wait_state "$many_job" COMPLETED 60
  [ "$(grep -oE 'sees [0-9]+ None' many.out | sort -u | wc -l)" -eq 2 ] || { cat many.out many.dl; return 1; }
  wait_state "$branch_job" COMPLETED 60
  grep -qE 'sees [0-9]+,[0-9]+ None' branch.out || { cat branch.out branch.dl; return 1; }
}

@test "FfDL's manifest.yml becomes a job that runs its command" {
  mkdir -p data/in
  echo sample >data/in/sample.txt
  cat >manifest.yml <<END
name: ffdl
gpus: 1
memory: 100Mb
cpus: 1
learners: 2
data_stores:
- {id: disk, type: mount_volume, training_data: {container: in}, training_results: {container: out}, connection: {path: $PWD/data}}
framework: {name: custom, command: 'cat \$DATA_DIR/sample.txt; echo learner \$LEARNER_ID of \$NUM_LEARNERS >\$RESULT_DIR/\$LEARNER_ID'}
END
  migrate manifest.yml --write ffdl.dl
  job=$(submit --output=ffdl.out ffdl.dl)
  wait_state "$job" COMPLETED 60
  [ "$(grep -c sample ffdl.out)" -eq 2 ]
  [ "$(cat "data/out/$job"/[12])" = "learner 1 of 2"$'\n'"learner 2 of 2" ]
}
