# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: numbers that only the job has, what excludes one another, and scripts that start launchers themselves."""
import os
import subprocess
import sys
import tempfile

import support
from test_migrate import HEAD, body_of, of

sys.path.insert(0, os.path.join(support.SOURCE, "launcher", "python"))

OPEN = "#!/bin/bash\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n"  # sbatch is told --nodes


class AtRunTime(support.Case):
    """sbatch's command line, or the machine, says how many there are: dlrun takes what the script computes."""

    def test_the_lines_stay_and_dlrun_has_the_number_of_the_script(self):
        for body, expected in (
                ("srun torchrun --nnodes=$SLURM_NNODES --nproc_per_node=4 --rdzv_endpoint=$h:1 torch.py", "--learners $((SLURM_NNODES * 4))"),
                ("N=$SLURM_JOB_NUM_NODES\nsrun torchrun --nnodes=$N --nproc_per_node=2 --rdzv_endpoint=$h:1 torch.py", "--learners $((N * 2)) --gpus 2"),
                ("W=$((SLURM_NNODES * 4))\naccelerate launch --num_processes $W --num_machines $SLURM_NNODES torch.py", "--learners $W"),
                ("W=$((SLURM_NNODES * 4))\nsrun -n ${W} python torch.py", "--learners $W"),
                ("srun torchrun --max_restarts 2 --nnodes ${SLURM_NNODES} --nproc_per_node 4 --rdzv_endpoint $h:1 torch.py", "--learners $((SLURM_NNODES * 4)) --restarts 2"),
                ("srun -n $((SLURM_NNODES * 4)) python torch.py", "--learners $((SLURM_NNODES * 4))"),
                ("deepspeed --hostfile h --no_local_rank torch.py", "--learners $((SLURM_NNODES * 4))")):
            result = of(body + "\n", OPEN)
            self.assertTrue(result.script.startswith(OPEN), result.script)
            self.assertEqual(body_of(result).splitlines()[-1].partition(" -- ")[0], f"dlrun --framework pytorch {expected}", body)
            self.assertIn("only where the job runs", str(result.notes))

    def test_gpus_that_the_script_counts(self):
        head = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --exclusive\n"
        for count in ("G=$(nvidia-smi -L | wc -l)", "G=$(python -c 'import torch; print(torch.cuda.device_count())')", "S=$(nvidia-smi)\nG=$(grep -c x <<< \"$S\")", "G=$1"):
            result = of(count + "\nsrun torchrun --nnodes=2 --nproc_per_node=$G --rdzv_endpoint=$h:1 t.py\n", head)
            self.assertIn("dlrun --framework pytorch --learners $((2 * G)) -- python3 t.py\n", result.script)
        self.assertIn("--learners auto -- python3 t.py\n", of("torchrun --nproc_per_node=gpu t.py\n", head).script)
        self.assertIn("--learners $1 -- python3 t.py\n", of("torchrun --nproc_per_node=$1 t.py\n", "#!/bin/bash\n").script)
        # Where the lines say it, they do.
        for count in ("G=$(jq -n \"[$CUDA_VISIBLE_DEVICES] | length\")", ": ${G:=4}", "IFS=, read -ra A <<< \"$CUDA_VISIBLE_DEVICES\"\nG=${#A[@]}", "A=(0 1 2 3)\nG=${#A[@]}"):
            result = of(count + "\nsrun torchrun --nnodes=2 --nproc_per_node=$G --rdzv_endpoint=$h:1 t.py\n")
            self.assertEqual((result.learners, result.gpus), ("8", 1), count)

    def test_what_only_the_shell_of_a_node_has_is_no_number_for_dlrun(self):
        result = of("srun bash -c 'G=$(ls /dev/x | wc -l); torchrun --nnodes=2 --nproc_per_node=$G --rdzv_endpoint=$h:1 t.py'\n", "#!/bin/bash\n#SBATCH --nodes=2\n")
        self.assertIn("--learners auto -- bash -c", result.script)

    def test_without_any_request_the_tasks_of_the_job_are_meant(self):
        head = "#!/bin/bash\n#SBATCH --exclusive\n#SBATCH --mem=0\n"
        result = of("srun --mpi=pmi2 python horovod_train.py\n", head)
        self.assertEqual(result.script, head + "dlrun --framework horovod -- python horovod_train.py\n")

    def test_what_the_number_is_made_of_stays(self):
        result = of("WORLD_SIZE=$((SLURM_NNODES * 4))\nMASTER_ADDR=a\naccelerate launch --num_processes $WORLD_SIZE --main_process_ip $MASTER_ADDR t.py\n", OPEN)
        self.assertEqual(body_of(result), "WORLD_SIZE=$((SLURM_NNODES * 4))\ndlrun --framework pytorch --learners $WORLD_SIZE -- python3 t.py\n")


class Branch(support.Case):
    def test_a_variable_that_begins_with_a_wrapper_may_hold_a_launcher(self):
        for export in ("", "export "):
            result = of(f'{export}CMD=" \\\n  t.py --lr $LR\n"\n{export}L="uv run accelerate launch \\\n  --num_processes 4 \\\n"\n$L $CMD 2>&1\n',
                        "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:4\n")
            self.assertEqual((result.learners, result.gpus), ("4", 1))
            self.assertIn("dlrun -- $L $CMD 2>&1\n", result.script)
            self.assertRegex(result.script, r'L="uv run python3\s')
        # A program that only reads such a variable is no launch of it.
        self.assertIsNone(of('L="uv run"\n$L ls\n', "#!/bin/bash\n").learners or None)

    def test_the_branch_that_asks_slurm_gives_the_number(self):
        head = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --gres=gpu:4\n"
        body = ('if [[ -n "${SLURM_GPUS_ON_NODE:-}" ]]; then\n  N="${SLURM_GPUS_ON_NODE}"\nelif [[ -n "${SLURM_JOB_GPUS:-}" ]]; then\n'
                '  N=$(echo "${SLURM_JOB_GPUS}" | tr , "\\n" | wc -l)\nelse\n  N="${N:-1}"\nfi\n')
        launcher = ('if [[ "$N" -gt 1 ]]; then\n  L="srun uv run torchrun --standalone --nproc_per_node=${N} $(which train)"\nelse\n  L="srun uv run train"\nfi\n'
                    '${L} --config x\n')
        result = of(body + "torchrun --standalone --nproc_per_node=$N torch.py\n", head)
        self.assertEqual((result.learners, result.gpus), ("4", 1))
        # The other branch starts one process, so dlrun counts the GPUs.
        result = of(body + launcher, head)
        self.assertTrue(result.script.startswith(head), result.script)
        self.assertIn("--learners auto -- ${L} --config x\n", result.script)
        self.assertIn('  L="uv run python3 $(which train)"\n', result.script)

    def test_launches_of_two_branches_never_run_together(self):
        launch = "  torchrun --nproc_per_node=4 t.py &\n"
        for body in (f"if [ $A ]; then\n{launch}else\n{launch}fi\nwait\n", f"case $A in\n1)\n{launch}  ;;\n*)\n{launch}  ;;\nesac\nwait\n"):
            result = of(body)
            self.assertEqual(result.learners, "4", result.script)
        self.assertEqual(of(launch + launch + "wait\n").learners, "8")

    def test_a_value_of_another_branch_does_not_count(self):
        result = of("N=4\nif [ $A ]; then\n  N=$((N - 1))\nfi\ntorchrun --nproc_per_node=$N t.py\n")
        self.assertEqual(result.learners, "4")
        result = of("N=4\nif [ $A ]; then\n  N=2\n  torchrun --nproc_per_node=$N t.py\nelse\n  N=3\nfi\n")
        self.assertEqual(result.learners, "2")

    def test_each_way_to_start_is_rewritten(self):
        many, one = "srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$h:1", "torchrun --nproc_per_node=4"
        result = of(f'if [ $A ]; then\n  L="{many}"\nelse\n  L="{one}"\nfi\n$L t.py\n')
        self.assertEqual(body_of(result), 'if [ $A ]; then\n  L="python3"\nelse\n  L="python3"\nfi\ndlrun --framework pytorch --learners auto -- $L t.py\n')
        result = of("if [ $A ]; then\n  export MASTER_PORT=1  # x\nelse\n  # y\n  export MASTER_PORT=2\nfi\ntorchrun --nproc_per_node=4 t.py\n")
        self.assertEqual(body_of(result), "if [ $A ]; then\n  :\nelse\n  # y\n  :\nfi\ndlrun -- python3 t.py\n")
        result = of(f'if [ $A ]; then\n  L="{one} -m"\nelse\n  L="{one} -m"\nfi\n$L t\n')
        self.assertEqual(body_of(result), 'if [ $A ]; then\n  L="python3 -m"\nelse\n  L="python3 -m"\nfi\ndlrun -- $L t\n')
        result = of(f'if [ $A ]; then\n  L="{one}"\nelse\n  L="python3"\nfi\n$L t.py\n')
        self.assertEqual(body_of(result), 'if [ $A ]; then\n  L="python3"\nelse\n  L="python3"\nfi\ndlrun -- $L t.py\n')


class Script(support.Case):
    """srun of a script of the user's, which may start a launcher itself."""

    def with_script(self, body, content, head=HEAD):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "node.sh"), "w") as file:
                file.write(content)
            return of(body, head, folder)

    MEETING = "export MASTER_ADDR=a\nexport MASTER_PORT=1\nexport WORLD_SIZE=8\n"

    def test_it_keeps_the_address_and_its_number(self):
        content = 'A="--nnodes $SLURM_NNODES --nproc_per_node 4 --master_addr $MASTER_ADDR"\ntorchrun $A t.py "$@"\n'
        for call in ("./node.sh", "bash node.sh", "singularity exec i.sif bash node.sh"):
            result = self.with_script(f"{self.MEETING}srun {call} --lr 1\n", content)
            self.assertEqual(body_of(result), f"{self.MEETING}dlrun -- {call} --lr 1\n")
            self.assertEqual((result.learners, result.gpus), ("2", 4))
            self.assertIn("node.sh starts torchrun itself", str(result.notes))
        result = self.with_script(self.MEETING + "srun ./node.sh\n", "accelerate launch --num_processes $WORLD_SIZE --machine_rank $SLURM_NODEID t.py\n")
        self.assertIn("dlrun -- env WORLD_SIZE=$WORLD_SIZE ./node.sh\n", result.script)

    def test_one_that_cannot_be_read_may_need_the_address(self):
        self.assertIn("export MASTER_ADDR=a\n", of(self.MEETING + "srun ./node.sh\n").script)

    def test_one_for_each_rank_has_all_from_dlrun(self):
        result = self.with_script(self.MEETING + "srun ./node.sh\n", "export RANK=$SLURM_PROCID\npython t.py\n")
        self.assertEqual(body_of(result), "dlrun -- ./node.sh\n")
        result = self.with_script(self.MEETING + "srun ./node.sh\n", "python t.py --url tcp://$MASTER_ADDR:$MASTER_PORT\n")
        self.assertIn("export MASTER_PORT=1\n", result.script)

    def test_a_server_beside_the_training_stays_with_srun(self):
        serve = "srun --nodes=1 --ntasks=1 --nodelist=$V vllm serve m &\n"
        result = of(serve + "srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$h:1 t.py\n")
        self.assertEqual(body_of(result), serve + "dlrun -- python3 t.py\n")


class Program(support.Case):
    """Files that lie where the script is submitted."""

    def of_files(self, body, files, head=HEAD):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in {**files, "scripts/run.sh": ""}.items():
                os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
                with open(os.path.join(folder, name), "w") as file:
                    file.write(content)
            return of(body, head, os.path.join(folder, "scripts"))

    def test_they_are_looked_for_above_the_folder_of_the_script(self):
        self.assertEqual(self.of_files("srun python train.py\n", {"train.py": "import horovod.torch as hvd\n"}).framework, "horovod")
        result = self.of_files("srun bash $ROOT/scripts/node.sh\n", {"scripts/node.sh": "torchrun --nnodes 2 t.py\n"})
        self.assertIn("starts torchrun itself", str(result.notes))

    def test_a_program_that_names_the_meeting_itself_hosts_it(self):
        for content in ('os.environ["MASTER_PORT"] = "1234"\n', "dist.init_process_group('nccl', init_method='tcp://' + host)\n"):
            for line in ("srun python train.py", "srun python -m pkg.train"):
                result = self.of_files(line + "\n", {"train.py": "import torch\n", "pkg/train.py": "import torch\n", "pkg/dist.py": content})
                self.assertIn("\nMASTER_PORT=29500 dlrun -- " + line[5:], result.script)
                self.assertIn("says itself where its ranks meet", str(result.notes))
        result = self.of_files("srun torchrun --nnodes 2 --nproc_per_node 4 train.py\n", {"train.py": 'os.environ["MASTER_PORT"] = "1234"\n'})
        self.assertNotIn("MASTER_PORT", result.script)

    def test_remarks_name_no_framework(self):
        self.assertEqual(of("# srun --mpi=pmi2 tensorflow\nsrun python t.py\n").framework, "")
        self.assertEqual(of("export MPICH_GPU_SUPPORT_ENABLED=1\nsrun python t.py\n").framework, "mpi")

    def test_a_file_that_cannot_be_read_hides_nothing(self):
        result = of("srun bash -c 'source vars.sh; python3 torch.py'\n")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "vars.sh"), "w") as file:
                file.write("export RANK=7 MASTER_PORT=7 OTHER=kept\n")
            code = 'dlrun() { shift; RANK=3 MASTER_PORT=1234 "$@"; }\n' + body_of(result).replace("python3 torch.py", "echo $RANK $MASTER_PORT $OTHER")
            done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, cwd=folder)
        self.assertEqual(done.stdout, "3 1234 kept\n", done.stderr)

    def test_torchrun_by_its_path(self):
        for call in ("python `which torchrun`", "python $(which torchrun)", "python -u /opt/bin/torchrun"):
            result = of(f"srun {call} --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$h:1 t.py\n")
            self.assertEqual(result.learners, "8", result.script)

    def test_a_container_that_is_no_file_stays_with_srun(self):
        for option in ("--container-image=/img/pytorch", "--container-image=$1", "--container-name=x"):
            result = of(f"srun {option} python torch.py\n")
            self.assertEqual((result.launches, result.script), (0, HEAD + f"srun {option} python torch.py\n"))
            self.assertIn("stays with srun", str(result.notes))
        for image in ("I=/img/x.sqsh", ': "${I:=$D/x.sqsh}"'):
            self.assertIn("dlrun --image $I -- python torch.py\n", of(image + "\nsrun --container-image $I python torch.py\n").script)

    def test_a_function_of_the_script_that_runs_what_it_is_given(self):
        for head in ('function cmd() {\n  echo "$@"\n  time "$@"\n}\n', 'cmd() { "$@"; }\n'):
            self.assertEqual(body_of(of(head + "cmd srun -n 2 python torch.py\n")), head + "cmd dlrun -- python torch.py\n")
            self.assertEqual(body_of(of(head + "cmd srun --export=ALL,A=b python torch.py\n")), head + "cmd env A=b dlrun -- python torch.py\n")
        self.assertEqual(body_of(of("exec srun --export=ALL,A=b python torch.py\n")), "exec env A=b dlrun -- python torch.py\n")

    def test_ray_within_a_text_stays_its_own(self):
        script = HEAD + 'srun -N1 -n1 bash -c "ray start --head --block" &\nsrun -N1 -n1 bash -c "ray job submit -- python3 -m t"\n'
        self.assertEqual(of(script[len(HEAD):]).script, script)

    def test_what_stands_behind_the_launch_of_a_node_is_told(self):
        result = of("srun bash -c 'if true; then torchrun --nnodes=2 --nproc_per_node=4 t.py; fi\npython eval.py'\n")
        self.assertEqual([note.line for note in result.notes if "once for each learner" in note.text], [6])


class Settings(support.Case):
    """accelerate's file that only the job can name."""
    LINE = 'srun bash -c "accelerate launch --config_file $F --num_processes 8 --num_machines 2 --machine_rank \\$SLURM_PROCID t.py"\n'

    def learner(self, content, line):
        """What the program finds of accelerate, where the job runs this."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "c d.yaml"), "w") as file:
                file.write(content)
            code = ('dlctl() { shift; python3 -m dl.migrate "$@"; }\ndlrun() { shift; "$@"; }\nF="c d.yaml"\n' +
                    line.replace("python3 t.py", "printenv ACCELERATE_MIXED_PRECISION ACCELERATE_DEEPSPEED_ZERO_STAGE"))
            return subprocess.run(["bash", "-c", code], capture_output=True, text=True, cwd=folder,
                                  env={**os.environ, "PYTHONPATH": os.path.join(support.SOURCE, "launcher", "python")})

    def test_the_job_reads_it(self):
        line = body_of(of(self.LINE))
        self.assertEqual(line, 'dlrun -- env $(dlctl migrate --variables-of "$F") bash -c "python3 t.py"\n')
        done = self.learner("distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config: {zero_stage: 3}\n", line)
        self.assertEqual((done.stdout, done.returncode), ("bf16\n3\n", 0), done.stderr)

    def test_nothing_trains_where_it_cannot_be_read(self):
        done = self.learner("[1, 2]\n", body_of(of(self.LINE)))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("c d.yaml", done.stderr)


if __name__ == "__main__":
    support.main()
