# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: faults that somebody found who had not written it: numbers of run time, one node, containers of other branches."""
import support
from test_migrate import body_of, of
from test_migrate_fresh import NODE, with_files

GPUS = "#!/bin/bash\n#SBATCH --gres=gpu:4\n"


def lines_of(result):
    return [line for line in result.script.splitlines() if line.startswith("#SBATCH")]


class Lightning(support.Case):
    PROGRAM = "import lightning as L\nL.Trainer(accelerator='gpu',\n  devices=4, callbacks=[C(a(1))])\n"

    def test_several_devices_without_a_strategy_are_learners(self):
        for launch, name in (("srun python go.py", "go_py"), ("srun python -m go", "go_py"), ("srun python -u -m ours.go", "ours__go_py")):
            result = with_files(launch + "\n", GPUS, **{name: self.PROGRAM})
            self.assertEqual((result.learners, result.gpus, result.framework), ("4", 1, "pytorch"), launch)
            self.assertIn("#SBATCH --nodes=1", lines_of(result))
        result = with_files("srun python go.py\n", "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\n", go_py=self.PROGRAM.replace("4", "gpus=4, num_nodes=2").replace("devices=", ""))
        self.assertEqual((result.learners, result.gpus), ("8", 1))

    def test_other_trainers_stay_one_process(self):
        for program in (self.PROGRAM.replace("devices=4", "devices=1"), self.PROGRAM.replace("devices=4", "devices=4, strategy='dp'"), self.PROGRAM.replace("'gpu'", "'dp'"),
                        self.PROGRAM.replace("  devices=4", "  # devices=4\n"), self.PROGRAM.replace("import lightning", "import other")):
            self.assertEqual(with_files("srun python go.py\n", GPUS, go_py=program).learners, "1", program)


    def test_processes_that_it_starts_without_srun_are_learners(self):
        for program in (self.PROGRAM, self.PROGRAM.replace("devices=4", "devices=-1"), self.PROGRAM.replace("devices=4", "devices='auto'"),
                        self.PROGRAM.replace("devices=4", "devices=torch.cuda.device_count()"), self.PROGRAM.replace("devices=4", "strategy='ddp'")):
            result = with_files("python go.py\n", GPUS + "#SBATCH --cpus-per-task=16\n", go_py=program)
            self.assertEqual((result.learners, result.gpus, body_of(result)), ("4", 1, "dlrun -- python go.py\n"), program)
            self.assertIn("#SBATCH --cpus-per-task=4", lines_of(result))
        for program in (self.PROGRAM.replace("devices=4", "devices=1"), self.PROGRAM.replace("devices=4", "devices=-1, strategy='dp'")):
            self.assertEqual(with_files("python go.py\n", GPUS, go_py=program).learners, "1", program)


class OneProcess(support.Case):
    """A program that is started once, and finds no rank where no launcher gives it one."""
    TRAINER = "from transformers import Trainer, TrainingArguments\n"

    def test_one_that_uses_all_gpus_where_it_finds_no_rank_finds_none(self):
        for launch in ("", "srun "):
            result = with_files(f"{launch}python train.py --x 1\n", GPUS, train_py=self.TRAINER)
            self.assertEqual((result.learners, result.gpus, body_of(result)), ("1", 4, "dlrun --alone -- python train.py --x 1\n"))

    def test_others_find_it(self):
        for launch in ("srun -n 4 python train.py", "torchrun --nproc_per_node=4 train.py", "torchrun --nproc_per_node=1 train.py"):
            self.assertNotIn("--alone", with_files(launch + "\n", GPUS, train_py=self.TRAINER).script, launch)

    def test_what_the_script_itself_tells_it_stays(self):
        for body in ("export WORLD_SIZE=4\nexport MASTER_PORT=29501\npython train.py\n", "RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost python train.py\n", "export MASTER_ADDR=localhost\nsrun python train.py\n"):
            self.assertEqual(body_of(of(body, GPUS)), body.replace("srun ", "").replace("python", "dlrun --alone -- python"))
        body = "srun bash -c 'export RANK=0 WORLD_SIZE=1; python train.py'\n"
        self.assertEqual(body_of(of(body, GPUS)), body.replace("srun", "dlrun --alone --"))

    def test_tasks_that_share_one_gpu_start_no_others(self):
        head = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=8\n#SBATCH --gres=gpu:{}\n"
        self.assertEqual(of("python train.py\n", head.format(1)).notes, [])
        self.assertIn("asks for 8 tasks", str(of("python train.py\n", head.format(8)).notes))


class Arguments(support.Case):
    """A number that the script's arguments may change is taken where the job runs."""

    def test_a_number_that_an_argument_may_change(self):
        for told in ('for arg in "$@"; do\n  case $arg in\n    np=*) NP="${arg#*=}" ;;\n    *) R+=("$arg") ;;\n  esac\ndone\n',
                     'while getopts n: opt; do\n  case $opt in\n    n) NP=$OPTARG ;;\n  esac\ndone\n', 'if [ -n "$1" ]; then NP=$1; fi\n',
                     'while [ $# -gt 0 ]; do\n  case $1 in\n    --np) NP="$2"; shift 2 ;;\n    --np=*) NP=${1#*=}; shift ;;\n  esac\ndone\n'):
            for launch in ('accelerate launch --num_processes="$NP" t.py', "torchrun --nproc_per_node $NP t.py"):
                result = of("NP=2\n" + told + launch + "\n", NODE)
                self.assertEqual(body_of(result), "NP=2\n" + told + "dlrun --framework pytorch --learners $NP -- python3 t.py\n")
                self.assertIn("--learners $NP", str(result.notes))
                self.assertEqual(lines_of(result), ["#SBATCH --nodes=1", "#SBATCH --gres=gpu:2"])

    def test_one_of_two_branches(self):
        body = 'if [ -n "$1" ]; then\n  NP=$1\nelse\n  NP=2\nfi\n'
        self.assertEqual(body_of(of(body + "torchrun --nproc_per_node $NP t.py\n", NODE)), body + "dlrun --framework pytorch --learners $NP -- python3 t.py\n")

    def test_what_no_argument_changes_is_known(self):
        for body in ("NP=2\nA=$1\n", "NP=1\nif [ -n \"$1\" ]; then\n  LR=$1\nfi\nNP=2\n", "NP=${1:-2}\n", "NP=$1\nNP=2\n", "NP=2\nfor i in 1 2; do\n  X=$i\ndone\n"):
            result = of(body + "torchrun --nproc_per_node $NP t.py\n", NODE)
            self.assertEqual((result.learners, result.gpus), ("2", 1), body)


class Launchers(support.Case):
    def test_a_launcher_in_two_branches_leaves_one_interpreter(self):
        body = 'if [ "$D" ]; then\n  L={}\nelse\n  L={}\nfi\n{} t.py\n'
        for other, python in (("torchrun", "python3"), ('"python -m torch.distributed.run"', "python")):
            self.assertEqual(body_of(of(body.format("torchrun", other, "$L --nproc_per_node 2"), NODE)), body.format("", '""' if other[0] == '"' else "", f"dlrun -- $L {python}"))
        whole = '"torchrun --nproc_per_node 2"'
        self.assertEqual(body_of(of(body.format(whole, whole, "$L"), NODE)), body.format('"python3"', '"python3"', "dlrun -- $L"))


class OneNode(support.Case):
    def test_processes_that_a_launcher_starts_on_its_own_node_stay_on_one(self):
        for launch in ("deepspeed --num_gpus=4 --no_local_rank t.py", "torchrun --standalone --nproc_per_node=4 t.py", "torchrun --nnodes 1 --nproc_per_node=4 t.py",
                       "accelerate launch --num_processes 4 --num_machines 1 t.py", "srun torchrun --standalone --nproc_per_node=4 t.py"):
            for head in (GPUS, GPUS + "#SBATCH --ntasks=1\n", GPUS.replace("--gres=gpu:4", "--gpus=4")):
                result = of(launch + "\n", head)
                self.assertEqual((result.learners, lines_of(result).count("#SBATCH --nodes=1")), ("4", 1), launch + head)
        # On several nodes, where the job says where it runs, and where no launcher starts processes.
        for launch, head in (("torchrun --standalone --nproc_per_node=4 t.py", GPUS + "#SBATCH --nodelist=n1\n"), ("srun -n 4 python t.py", GPUS),
                             ("torchrun --standalone --nproc_per_node=1 t.py", GPUS), ("torchrun --standalone --nproc_per_node=4 t.py", GPUS.replace("--gres=gpu:4", "--gpus=8"))):
            self.assertNotIn("#SBATCH --nodes=1", lines_of(of(launch + "\n", head)), launch + head)


class SeveralNodes(support.Case):
    HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:4\n"

    def test_each_node_keeps_as_many_tasks_as_it_has_gpus(self):
        result = of("srun python t.py\n", self.HEAD)
        self.assertEqual((result.learners, result.gpus), ("8", 1))
        self.assertIn("#SBATCH --ntasks-per-node=4", lines_of(result))
        for head in (self.HEAD.replace("node=4", "node=2"), self.HEAD.replace("nodes=2", "nodes=1"), self.HEAD.replace("node=4", "node=1").replace("gpu:4", "gpu:1")):
            self.assertNotIn("ntasks-per-node", of("srun python t.py\n", head).script)


class Late(support.Case):
    def test_lines_behind_the_first_command_give_no_number(self):
        result = of("srun ./go.sh $@\n", "#!/bin/bash\nP=$1\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\n")
        self.assertNotIn("--dl-", result.script)
        self.assertIn("dlrun -- ./go.sh $@\n", result.script)
        self.assertIn("have no effect", str(result.notes))
        self.assertEqual(of("srun ./go.sh\n", "#!/bin/bash\n").learners, "1")


class Plain(support.Case):
    def test_a_training_in_a_container_of_another_branch(self):
        body = ('if [ -n "$IMAGE" ]; then\n  {0}apptainer run --nv "$IMAGE" bash -lc "python3 -u -c \'print(1)\' && python3 -u -m pip list && python3 -u -m {1} --c $C"\n'
                'else\n  {0}python3 train_it.py --c $C\nfi\n')
        self.assertEqual(body_of(of(body.format("", "ours.train_it"), NODE)), body.format("dlrun --alone -- ", "ours.train_it"))
        result = body_of(of(body.format("", "ours.evaluate"), NODE))
        self.assertEqual((result.count("dlrun"), "  dlrun --alone -- python3 train_it.py" in result), (1, True))

    def test_a_program_in_a_variable(self):
        for held, word in (('"train_${V}.py"', '"${SCRIPT}"'), ("go.py", "$SCRIPT")):
            self.assertEqual(body_of(of(f"SCRIPT={held}\nfor i in 1 2; do\n  python -u {word} --n $i\ndone\n", NODE)),
                             f"SCRIPT={held}\nfor i in 1 2; do\n  dlrun --alone -- python -u {word} --n $i\ndone\n")
        self.assertEqual(of('SCRIPT="train.txt"\npython $SCRIPT\n', NODE).launches, 0)

    def test_a_command_that_is_put_together(self):
        body = 'CMD="python $ROOT/go.py"\nCMD="$CMD --c ${C}"\n' + "".join(f'if [ -n "$X{i}" ]; then\n  CMD="${{CMD}} --x{i} $X{i}"\nfi\n' for i in range(8))
        self.assertEqual(body_of(of(body + "$CMD\n", NODE)), body + "dlrun --alone -- $CMD\n")
        body = 'CMD=(python go.py)\nCMD=("${CMD[@]}" --c $C)\n'
        self.assertEqual(body_of(of(body + '"${CMD[@]}"\n', NODE)), body + 'dlrun --alone -- "${CMD[@]}"\n')
        body = 'CMD="{}"\nCMD="$CMD go.py --c $C"\n{}$CMD\n'
        result = of(body.format("torchrun --nproc_per_node=2", ""), NODE)
        self.assertEqual((result.learners, body_of(result)), ("2", body.format("python3", "dlrun -- ")))

    def test_a_value_that_is_put_together_is_no_number(self):
        for body, many in (("A=(0)\nA=(\"${A[@]}\" 1)\n", "${#A[@]}"), ("A=(0)\nA+=(1)\n", "${#A[@]}"), ("N=\"$X\"\nN=\"$N 2\"\n", "$N")):
            result = of(body + f"torchrun --nproc_per_node={many} t.py\n", NODE)
            self.assertIn(f"--learners {many} ", body_of(result), body)

    def test_an_old_horovod_knows_only_mpi(self):
        for version, framework in (("0.16.2-GPU-Python-3.6.8", "mpi"), ("0.17", "mpi"), ("0.18.1", "horovod"), ("0.28.1", "horovod")):
            for launch in ("srun -n 2 python go.py", "mpirun -np 2 python go_horovod.py"):
                result = of(f"module load Horovod/{version}\n{launch}\n", NODE)
                self.assertEqual((result.framework, "MPI" in str(result.notes)), (framework, framework == "mpi"), version)


if __name__ == "__main__":
    support.main()
