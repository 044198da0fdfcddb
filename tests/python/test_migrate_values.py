# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: values that scripts put together, words in front of a launch, and scripts that submit themselves."""
import os
import subprocess
import sys
import tempfile

import support
from test_migrate import STANDINS, body_of, of

sys.path.insert(0, os.path.join(support.SOURCE, "launcher", "python"))

NODE = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gpus-per-node=4\n#SBATCH --ntasks=1\n"


class Appended(support.Case):
    """CMD="torchrun ..."; CMD+=" more": the value is all of it."""

    def test_what_is_appended_belongs_to_the_command(self):
        for body in ('CMD="torchrun --nproc_per_node=4"\nCMD+=" t.py --lr 1"\n$CMD\n', 'CMD=(torchrun --nproc_per_node 4 t.py)\nCMD+=(--lr 1)\n"${CMD[@]}"\n',
                     'A="--standalone"\nA+=" --nproc_per_node=4"\ntorchrun $A t.py --lr 1\n', 'CMD="torchrun"\nCMD+=" --nproc_per_node=4"\nCMD+=" t.py --lr"\neval "$CMD 1"\n',
                     'A=(--nnodes 1)\nif true; then\n  A+=(--nproc_per_node 4)\nfi\nsrun torchrun "${A[@]}" t.py --lr 1\n',
                     'CMD="python -m torch.distributed.run --nproc_per_node=4 t.py"\n[ -n x ] && CMD+=" --lr 1"\n$CMD\n'):
            result = of(body, NODE)
            self.assertEqual((result.launches, result.learners, result.gpus), (1, "4", 1), result.script)
            done = subprocess.run(["bash", "-c", STANDINS + body_of(result)], capture_output=True, text=True)
            self.assertEqual((done.stdout, done.stderr), ("<t.py><--lr><1>", ""), result.script)


class InFront(support.Case):
    def test_programs_that_run_others(self):
        for front in ("/usr/bin/time -v ", "time -p ", "setsid -w ", "/usr/bin/nohup ", "/usr/bin/timeout -k 5 3600 ", "/usr/bin/time -o x -f %e "):
            self.assertEqual(body_of(of(front + "torchrun --nproc_per_node 4 t.py\n", NODE)), front + "dlrun -- python3 t.py\n")

    def test_variables_that_hold_the_interpreter(self):
        for python in ("$PY", "${PY}", "${VENV_PY:-python3}", '"${PYTHON_BIN:-python}"', "$HOME/venv/bin/python"):
            self.assertEqual(body_of(of(python + " -u -m torch.distributed.run --nproc_per_node=4 t.py\n", NODE)), f"dlrun -- {python} -u t.py\n")
            self.assertEqual(body_of(of(python + " t.py\n", NODE)), f"dlrun --alone -- {python} t.py\n")

    def test_a_variable_that_the_script_does_not_set_stays_in_front(self):
        for program in ("torchrun --nproc_per_node 4 t.py", "python t.py"):
            result = of(f"source env.sh\n$RUN_PREFIX {program}\n", NODE)
            self.assertEqual(body_of(result), f"source env.sh\ndlrun {'-- $RUN_PREFIX python3' if program[0] == 't' else '--alone -- $RUN_PREFIX python'} t.py\n")
            self.assertIn("what $RUN_PREFIX holds is not known here", str(result.notes))
        for body in ("$SRUN python t.py\n", "$PIP install deepspeed\n", "read -r X\n$X python t.py\n", "$ECHO a deepspeed\n"):
            self.assertEqual(of(body, NODE).launches, 0, body)

    def test_a_command_in_a_variable(self):
        for body in ('CMD="python -u t.py"\n$CMD --lr 1\n', 'CMD="WANDB_MODE=offline python t.py --a"\neval $CMD\n', 'CMD=(python t.py)\nCMD+=(--lr 1)\nexec "${CMD[@]}"\n',
                     'CMD="uv run python t.py"\neval "$CMD"\n'):
            result = of(body, NODE)
            self.assertEqual((result.learners, result.gpus), ("1", 4), body)
            self.assertEqual(result.script.count("dlrun --alone -- "), 1)
            self.assertRegex(result.script, r'\n(eval |exec )?"?dlrun --alone -- "?\$')
        self.assertEqual(of('CMD="ls -l"\n$CMD\n', NODE).launches, 0)

    def test_torchtune_runs_its_recipe_in_each_learner(self):
        result = of("tune run --nnodes 1 --nproc_per_node 4 full_finetune_distributed --config c.yaml epochs=1\n", NODE)
        self.assertEqual((body_of(result), result.learners), ("dlrun -- tune run full_finetune_distributed --config c.yaml epochs=1\n", "4"))
        self.assertEqual(of("tune run lora_finetune_single_device --config c\n", NODE).learners, "1")


class Waited(support.Case):
    def test_one_launch_in_the_background_has_all_gpus(self):
        for behind in ("wait", "PID=$!\nwait $PID", "export PID=$!\ntrap 'kill $PID' TERM\nwait"):
            result = of(f"python t.py &\n{behind}\n", NODE)
            self.assertEqual((result.learners, result.gpus), ("1", 4), behind)
        # Several, or those of a loop, share them.
        for body in ("python a.py &\npython b.py &\nwait\n", "for i in 0 1 2 3; do\npython t.py $i &\nPID=$!\ndone\nwait\n"):
            self.assertEqual(of(body, NODE).gpus, 1, body)


class Numbers(support.Case):
    def test_numbers_in_parts_of_slurms_variables(self):
        head = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=a100:4\n#SBATCH --ntasks-per-node=1\n"
        for number in ("${SLURM_GPUS_PER_NODE##*:}", "$(echo $SLURM_GPUS_PER_NODE | cut -d: -f2)", "$(( $(nvidia-smi -L | wc -l) * 1 ))", "${SLURM_GPUS_PER_NODE#*:}", "${SLURM_GPUS_PER_NODE//*:/}"):
            result = of(f"G={number}\nsrun torchrun --nnodes=2 --nproc_per_node=$G --rdzv_endpoint=$h:1 t.py --gpus $G\n", head)
            self.assertEqual((result.learners, result.gpus), ("8", 1), number)
            self.assertNotIn("SLURM_GPUS_PER_NODE", result.script)

    def test_a_line_that_goes_on_right_behind_a_number(self):
        result = of('srun bash -c "torchrun --nproc_per_node=$G\\\n  --nnodes=$SLURM_NNODES\\\n  --rdzv_endpoint=$h:1 t.py"\n'.replace("srun", "G=4\nsrun", 1), NODE)
        self.assertEqual((result.learners, result.gpus), ("4", 1))


class Nodes(support.Case):
    HEAD = "#!/bin/bash\n#SBATCH --nodes=3\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:8\n"

    def test_of_two_branches_the_one_for_several_nodes_counts(self):
        result = of("if [[ $n == 1 ]]; then composer t.py; else srun bash go.sh; fi\n", self.HEAD)
        self.assertEqual((result.learners, result.gpus), ("3", 8))
        self.assertEqual(body_of(result), "if [[ $n == 1 ]]; then dlrun --learners 8 -- python3 t.py; else dlrun -- bash go.sh; fi\n")

    def test_launchers_of_several_nodes_that_do_not_say_how_many_meet_at_the_endpoint(self):
        for endpoint, learners in (("$h:29500", "24"), ("localhost:0", "8")):
            result = of(f"srun torchrun --nproc_per_node 8 --rdzv_id $RANDOM --rdzv_backend c10d --rdzv_endpoint {endpoint} t.py\n", self.HEAD)
            self.assertEqual(result.learners, learners)

    def test_composer_of_each_node_gets_the_world_size_of_the_script(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "go.sh"), "w") as file:
                file.write("composer --node_rank $SLURM_NODEID t.py\n")
            result = of("export WORLD_SIZE=24\nsrun bash go.sh\n", self.HEAD, folder)
            self.assertEqual(body_of(result), "export WORLD_SIZE=24\ndlrun -- env WORLD_SIZE=$WORLD_SIZE bash go.sh\n")

    def test_a_loop_that_gives_each_node_its_number(self):
        body = ('for i in "${!NODES[@]}"; do\n  srun --nodelist="${NODES[i]}" --ntasks=1 --nodes=1 env N="$N" \\\n    MACHINE_RANK="${i}" \\\n    A=b bash "$D/go.sh" > "node_${i}.log" 2>&1 &\n'
                'done\nwait\necho over\n')
        result = of(body, self.HEAD)
        self.assertEqual((result.learners, result.gpus), ("3", 8))
        self.assertEqual(" ".join(body_of(result).split()), "dlrun -- bash -c 'export MACHINE_RANK=$DL_NODE_RANK; exec \"$@\"' learner env N=\"$N\" \\ A=b bash \"$D/go.sh\" 2>&1 echo over")
        # A turn that does more, or uses the number elsewhere, is not one of these.
        for other in (body.replace("A=b", "A=x$i"), body.replace("  srun", "  python prepare.py $i\n  srun")):
            self.assertNotIn("DL_NODE_RANK", of(other, self.HEAD).script)

    def test_a_loop_that_gives_each_node_something_else_stays(self):
        for head, given in (("for n in $nodes", "HOST=$n"), ("for i in $(seq 1 3)", "MACHINE_RANK=$i"), ("for i in {1..3}", "MACHINE_RANK=$i"), ("for ((i=1; i<4; i++))", "MACHINE_RANK=$i")):
            result = of(f"{head}; do\n  srun -w $n -N1 -n1 env {given} bash go.sh &\ndone\nwait\n", self.HEAD)
            self.assertNotIn("DL_NODE_RANK", result.script)
            self.assertIn(given, result.script)
        for head in ("for i in $(seq 0 2)", "for i in {0..2}", "for ((i=0; i<3; i++))", "for i in 0 1 2", 'for i in "${!NODES[@]}"'):
            result = of(f"{head}; do\n  srun -w ${{NODES[i]}} -N1 -n1 env MACHINE_RANK=$i bash go.sh &\ndone\nwait\n", self.HEAD)
            self.assertEqual((body_of(result).strip(), result.learners), ("dlrun -- bash -c 'export MACHINE_RANK=$DL_NODE_RANK; exec \"$@\"' learner env bash go.sh", "3"))

    def test_a_program_of_its_own_may_have_the_name_of_a_tool(self):
        result = of("mpirun -n 4 ./test\n", "#!/bin/bash\n#SBATCH --ntasks=4\n")
        self.assertEqual((body_of(result), result.learners), ("dlrun -- ./test\n", "4"))
        self.assertEqual(of("srun test -d x\n", "#!/bin/bash\n#SBATCH --ntasks=4\n").launches, 0)


class OneGpuEach(support.Case):
    def test_a_task_of_any_program_that_saw_one_gpu_still_does(self):
        for asked in ("4", "<N>"):
            result = of("srun enerzyme train -c x\n", f"#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node={asked}\n#SBATCH --gpus-per-task=1\n".replace("nodes=2", f"nodes={asked}"))
            self.assertRegex(body_of(result), r"^dlrun -- bash -c 'export CUDA_VISIBLE_DEVICES=.*' learner enerzyme train -c x\n$")
        self.assertNotIn("CUDA_VISIBLE", of("srun ./run.sh\n", "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-task=1\n").script)


class Elsewhere(support.Case):
    def test_a_container_that_the_site_describes_stays_with_srun(self):
        result = of('A="--wait 60 --environment /users/me/c.toml"\nsrun $A bash -c "torchrun --nproc_per_node=4 --nnodes=1 t.py"\n', NODE)
        self.assertEqual(result.launches, 0)
        self.assertIn("this stays with srun: its container (/users/me/c.toml) is described by a file that cannot be read here", str(result.notes))

    def test_a_job_whose_script_runs_in_a_container_stays(self):
        for option in ("--environment=/x.toml", "--container-image=x.sqsh"):
            result = of("srun torchrun --nproc_per_node=4 t.py\n", NODE + f"#SBATCH {option}\n")
            self.assertEqual(result.launches, 0)
            self.assertIn(f"itself runs in a container ({option})", str(result.notes))

    def test_a_script_by_the_path_that_it_has_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "scripts"))
            with open(os.path.join(folder, "scripts", "go.sh"), "w") as file:
                file.write("torchrun --nproc_per_node 4 t.py\n")
            result = of("bash /home/of/somebody/repo/scripts/go.sh\n", NODE, folder)
            self.assertEqual([part.new for part in result.others], ["dlrun -- python3 t.py\n"])


    def test_a_sourced_file_that_lies_elsewhere_is_not_the_one_beside_the_script(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "env.sh"), "w") as file:
                file.write("export MASTER_ADDR=a MASTER_PORT=1\n")
            for source, stays in (("/of/the/site/env.sh", True), ("./env.sh", False), (os.path.join(folder, "env.sh"), False)):
                script = of(f"srun bash -c 'source {source}; torchrun --nproc_per_node 4 t.py'\n", NODE, folder).script
                self.assertEqual(f"source {source}" in script, stays, script)

    def test_programs_of_libraries_over_mpi(self):
        with tempfile.TemporaryDirectory() as folder:
            for module in ("mpi4py", "petsc4py", "dolfin", "dolfinx", "firedrake"):
                with open(os.path.join(folder, "solve.py"), "w") as file:
                    file.write(f"import numpy\nimport {module}\n")
                self.assertEqual(of("srun python solve.py\n", "#!/bin/bash\n#SBATCH --ntasks=4\n", folder).framework, "mpi")


class Between(support.Case):
    """A script between srun and the program."""

    def of(self, script, call="./run.sh python t.py"):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "run.sh"), "w") as file:
                file.write("#!/bin/bash\n" + script + 'exec "$@"\n')
            return of(f"srun {call}\n", "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n", folder)

    def test_ranks_that_it_takes_from_slurm_are_the_learners(self):
        result = self.of('export RANK=$SLURM_PROCID LOCAL_RANK="${SLURM_LOCALID}"\nexport WORLD_SIZE=${SLURM_NTASKS:-1}\nRANK=${RANK:-0}\n')
        self.assertEqual(body_of(result), "dlrun -- ./run.sh python t.py\n")
        self.assertNotIn("hides", str(result.notes))

    def test_other_ranks_are_named(self):
        self.assertIn("run.sh:2 sets RANK, which hides that of dlrun", str(self.of("export RANK=$((SLURM_NODEID * 4))\n").notes))

    def test_ranks_meet_where_it_says(self):
        for call in ("./run.sh python t.py", "bash run.sh python t.py"):
            result = self.of("export MASTER_ADDR=$(scontrol show hostnames | head -n 1)\nexport MASTER_PORT=29511\nexport RANK=$SLURM_PROCID\n", call)
            self.assertEqual(body_of(result), f"MASTER_PORT=29500 dlrun -- {call}\n")
            self.assertIn("run.sh says itself where the ranks meet", str(result.notes))


class OwnSubmission(support.Case):
    def test_options_of_a_script_that_submits_itself(self):
        result = of('if [ -z "$SLURM_JOB_ID" ]; then\n  sbatch \\\n    --job-name="a-$M" \\\n    --gres="gpu:2" --nodes 1 \\\n    --time="$T" \\\n    "$0" $M\n  exit 0\nfi\n'
                    'uv run torchrun --standalone --nproc_per_node=2 t.py --odd\n', "#!/bin/bash\n")
        self.assertEqual((result.learners, result.gpus), ("2", 1))
        self.assertNotIn("#SBATCH", result.script)
        self.assertNotIn("gres", result.script)
        self.assertIn("--dl-framework=pytorch --dl-learners=2 --dl-gpus=1 \"$0\" $M\n", result.script)
        self.assertIn('--job-name="a-$M" \\\n', result.script)
        self.assertIn("dlrun -- uv run python3 t.py --odd\n", result.script)
        done = subprocess.run(["bash", "-c", "sbatch() { printf '<%s>' \"$@\"; }; M=m T=9\n" + result.script], capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
        self.assertEqual(done.stdout, "<--job-name=a-m><--nodes><1><--time=9><--dl-framework=pytorch><--dl-learners=2><--dl-gpus=1><bash><m>")

    def test_tasks_that_its_own_options_ask_for_stay(self):
        text = 'if [ -z "$SLURM_JOB_ID" ]; then sbatch --gpus-per-node=4 --ntasks-per-node=4 --nodes=$N "$0"; exit; fi\nsrun python t.py --nodes $SLURM_NNODES\n'
        result = of(text, "#!/bin/bash\n")
        self.assertEqual(result.script, "#!/bin/bash\n" + text.replace("srun", "dlrun --"))
        self.assertIn("dlrun starts one for each task of the job", str(result.notes))

    def test_options_of_a_script_that_submits_itself_and_calls_another(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "go.sh"), "w") as file:
                file.write("torchrun --nproc_per_node 4 --odd t.py\n")
            result = of('if [ -z "$SLURM_JOB_ID" ]; then sbatch --gpus-per-node=4 "$0"; exit; fi\nbash go.sh\n', "#!/bin/bash\n", folder)
            self.assertEqual(result.script, '#!/bin/bash\nif [ -z "$SLURM_JOB_ID" ]; then sbatch --dl-framework=pytorch --dl-learners=4 --dl-gpus=1 --nodes=1 "$0"; exit; fi\nbash go.sh\n')
            self.assertEqual([part.new for part in result.others], ["dlrun -- python3 t.py\n"])
            self.assertEqual({note.line for note in result.notes}, {3})

    def test_lines_behind_a_command_are_named(self):
        result = of("set -e\n#SBATCH --gres=gpu:4\ntorchrun --nproc_per_node 4 t.py\n", "#!/bin/bash\n")
        self.assertIn((3, "this #SBATCH line and those below have no effect, since sbatch reads them only up to the first command: to have their options, move them above it"), [tuple(note) for note in result.notes])
        self.assertNotIn("only up to", str(of("cat <<E\n#SBATCH --x\nE\ntorchrun --nproc_per_node 4 t.py\n", NODE).notes))


if __name__ == "__main__":
    support.main()
