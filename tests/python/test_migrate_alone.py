# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: one process that no launcher starts, what tasks share, and what a script hands on to its program."""
import os
import subprocess
import tempfile

import support
from test_migrate import body_of, of
from test_migrate_fresh import NODE, with_files

ONE = "#!/bin/bash\n#SBATCH --gres=gpu:1\n"
FOUR = "#!/bin/bash\n#SBATCH --gres=gpu:4\n"
def lines_of(result):
    return [line for line in result.script.splitlines() if line.startswith("#SBATCH")]


class OneProcess(support.Case):
    """By hand it finds no rank, whatever it is and whatever it would do with one."""

    def test_each_process_that_nothing_gives_a_rank_is_started_alone(self):
        for launch in ("python /elsewhere/go.py", "python -m their.train", "fairseq-train data", "apptainer exec --nv i.sif python /code/train.py", "wandb agent me/mine/xyz", "bash -c 'cd x && python train.py'"):
            for head in (ONE, FOUR, "#!/bin/bash\n#SBATCH --nodes=1\n"):
                for front in ["srun "] + [""] * (launch[:4] != "bash"):
                    self.assertEqual(body_of(of(front + launch + "\n", head)), f"dlrun --alone -- {launch}\n")
        for call in ("srun ./go.sh", "bash go.sh"):
            self.assertEqual(body_of(with_files(call + "\n", ONE, go_sh="export A=1\npython train.py\n")), "dlrun --alone -- " + call.replace("srun ", "") + "\n")

    def test_one_of_accelerate_is_none_with_deepspeed_or_fsdp(self):
        for option, env in (("--multi_gpu", ""), ("--use_deepspeed", "ACCELERATE_USE_DEEPSPEED=true "), ("--use_fsdp", "ACCELERATE_USE_FSDP=true ")):
            self.assertEqual(body_of(of(f"accelerate launch {option} --num_processes 1 train.py\n", ONE)), env + "dlrun -- python3 train.py\n")
        self.assertIn("\ndlrun -- env $(dlctl", of("accelerate launch --config_file there/zero3.yaml --num_processes 1 train.py\n", ONE).script)
        self.assertIn("\ndlrun --alone -- env $(dlctl", of("accelerate launch --config_file there/one.yaml --num_processes 1 train.py\n", ONE).script)

    def test_one_of_accelerate_is_and_of_other_launchers_is_none(self):
        self.assertEqual(body_of(of("accelerate launch --num_processes 1 train.py\n", ONE)), "dlrun --alone -- python3 train.py\n")
        for launch in ("torchrun --nproc_per_node=1 train.py", "deepspeed --num_gpus=1 --no_local_rank train.py", "srun -n 2 python train.py", "mpirun -np 1 python train.py",
                       "accelerate launch --num_processes 4 train.py"):
            self.assertNotIn("--alone", of(launch + "\n", FOUR).script, launch)
        self.assertNotIn("--alone", with_files("srun ./go.sh\n", FOUR, go_sh="torchrun --nproc_per_node=4 train.py\n").script)

    def test_lightning_that_is_told_elsewhere_how_many_devices_there_are(self):
        program = "import lightning as L\ntrainer = instantiate(cfg.trainer)\n"
        self.assertEqual(body_of(with_files("python train.py\n", FOUR, train_py=program)), "dlrun --alone -- env -u SLURM_NTASKS python train.py\n")
        self.assertEqual(body_of(of("python train.py --strategy ddp\n", FOUR)), "dlrun --alone -- env -u SLURM_NTASKS python train.py --strategy ddp\n")
        for launch, files in (("python train.py", {"train_py": "import ours\n", "ours__run_py": program}), ("python -m ours.cli", {"src__ours__cli_py": "def main():\n    from .run import go\n", "src__ours__run_py": program})):
            self.assertEqual(body_of(with_files(launch + "\n", FOUR, **files)), f"dlrun --alone -- env -u SLURM_NTASKS {launch}\n")
        for launch, head in (("python train.py", FOUR + "#SBATCH --ntasks=1\n"), ("srun python train.py", FOUR), ("python train.py", ONE), ("python train.py devices=1", FOUR)):
            self.assertNotIn("SLURM_NTASKS", with_files(launch + "\n", head, train_py=program).script, launch)


class Shared(support.Case):
    def test_tasks_that_share_a_gpu_still_do(self):
        head = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=1\n"
        for launch in ("srun python train.py", "mpirun -np 4 python train.py"):
            result = of(launch + "\n", head)
            self.assertEqual(lines_of(result), head.splitlines()[1:])
            self.assertIn("--learners 4 -- python train.py\n", body_of(result))
            self.assertIn("4 processes share 1 GPU", str(result.notes))
        # Not the processes of torchrun, of which each takes a GPU.
        self.assertEqual(of("torchrun --nproc_per_node=4 train.py\n", head).gpus, 1)

    def test_more_cpus_have_the_memory_of_the_former_ones(self):
        for head, body, memory in (
                ("--ntasks=1\n#SBATCH --gpus=8\n#SBATCH --mem-per-cpu=512G", "torchrun --nproc_per_node=8 t.py", "64G"),
                ("--ntasks=1\n#SBATCH --gpus=8\n#SBATCH --mem-per-cpu=4G", "torchrun --nproc_per_node=8 t.py", "512M"),
                ("--gres=gpu:4\n#SBATCH --cpus-per-task=6\n#SBATCH --mem-per-cpu=4000", "torchrun --nproc_per_node=4 t.py", "6000"),
                ("--gres=gpu:4\n#SBATCH --cpus-per-task=8\n#SBATCH --mem-per-cpu=4G", "torchrun --nproc_per_node=4 t.py", "4G"),
                ("--ntasks=4\n#SBATCH --gres=gpu:4\n#SBATCH --mem-per-cpu=4G", "srun python t.py", "4G"),
                ("--ntasks=16\n#SBATCH --gres=gpu:1\n#SBATCH --mem-per-cpu=4G", "python t.py", "4G")):
            self.assertIn(f"#SBATCH --mem-per-cpu={memory}", lines_of(of(body + "\n", f"#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH {head}\n")), head)


class Handed(support.Case):
    def test_a_signal_for_the_program_is_named(self):
        trap = "trap 'kill -{} $PID' {}\npython train.py &\nPID=$!\nwait $PID\n"
        for name in ("USR2", "SIGHUP", "12", "s USR2"):
            self.assertIn("hands only SIGUSR1 on", str(of(trap.format(name, "USR1"), ONE).notes), name)
        for name in ("USR1", "SIGUSR1", "10", "s USR1", "TERM"):  # dlrun hands it on
            self.assertEqual(of(trap.format(name, name), ONE).notes, [], name)
        self.assertEqual(of(trap.format("HUP", "HUP"), ONE + "#SBATCH --signal=B:SIGHUP@90\n").notes, [])
        self.assertEqual(of("trap 'scontrol requeue $SLURM_JOB_ID' USR1\npython train.py &\nwait\n", ONE).notes, [])

    def test_a_signal_before_the_time_limit_is_named(self):
        self.assertIn("--signal=QUIT@90: dlrun takes this signal", str(of("srun -n 2 python t.py\n", NODE + "#SBATCH --signal=QUIT@90\n").notes))
        self.assertNotIn("--signal", str(of("srun -n 2 python t.py\n", NODE + "#SBATCH --signal=B:USR1@90\n").notes))

    def test_a_container_that_takes_no_variables_gets_those_of_learners(self):
        body = 'srun apptainer exec --nv --cleanenv --env "A=1" i.sif {}python3 t.py\n'
        result = of(body.format("torchrun --nproc_per_node=2 ").replace("python3 ", ""), NODE)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "apptainer"), "w") as file:
                file.write('#!/bin/sh\nenv | grep "^APPTAINERENV_" | sort\necho "$*"\n')
            os.chmod(file.name, 0o755)
            done = subprocess.run(["bash", "-c", 'dlrun() { shift; RANK=1 DL_RANK=1 MASTER_PORT=5 "$@"; }\n' + body_of(result)], capture_output=True, text=True,
                                  env={"PATH": folder + ":" + os.environ["PATH"]})
        self.assertEqual(done.stdout.splitlines() + [done.stderr],
                         ["APPTAINERENV_DL_RANK=1", "APPTAINERENV_MASTER_PORT=5", "APPTAINERENV_RANK=1", "exec --nv --cleanenv --env A=1 i.sif python3 t.py", ""])
        for other in (body.format("").replace("srun", "srun -n 1"), body.format("").replace("--cleanenv ", "").replace("srun", "srun -n 2")):
            self.assertNotIn("APPTAINERENV", of(other, NODE).script)
        job = "sbatch <<END\n#!/bin/bash\n#SBATCH --gres=gpu:2\nsingularity exec -e i.sif torchrun --nproc_per_node=2 t.py\nEND\n"
        self.assertIn("for v in \\${!DL_*}", of(job, "#!/bin/bash\n").script)

    def test_where_a_program_in_a_variable_says_that_its_ranks_meet(self):
        files = {"main_py": "from utils import util\n", "utils__util_py": "def init(port):\n    os.environ['MASTER_PORT'] = str(port)\n"}
        for before, word in (('P="$SLURM_SUBMIT_DIR"/main.py\n', "$P"), ("", "${1:-main.py}")):
            self.assertEqual(body_of(with_files(f"{before}srun -n 2 python {word} --launcher=slurm\n", NODE, **files)), f"{before}MASTER_PORT=29500 dlrun -- python {word} --launcher=slurm\n")

    def test_a_quote_that_is_taken_off_and_put_behind_more(self):
        body = "CMD=\"{}bash -c 'python train.py --a $A'\"\nif [ \"$B\" ]; then\n  CMD=\"${{CMD%\\'}} --b $B'\"\nfi\neval {}$CMD\n"
        self.assertEqual(body_of(of(body.format("srun ", ""), NODE.replace("gpu:2", "gpu:2\n#SBATCH --ntasks=2"))), body.format("", "dlrun -- "))

    def test_text_of_a_shell_within_a_value_has_its_dollars_escaped(self):
        body = "CMD=\"srun bash -c 'source env.sh && python train.py'\"\neval $CMD\n"
        result = with_files(body, NODE.replace("gpu:2", "gpu:2\n#SBATCH --ntasks=2"), env_sh="export RANK=$SLURM_PROCID\nexport PATH=/x:$PATH\n")
        self.assertIn("of_dlrun=\\$(declare -p RANK", result.script)
        self.assertNotIn('eval "', result.script)

    def test_a_script_or_a_program_that_a_default_names(self):
        result = with_files("S=${1:-go.sh}\nsrun $S\n", NODE, go_sh="accelerate launch --num_processes 2 --main_process_ip $MASTER_ADDR t.py\n")
        self.assertIn("go.sh starts accelerate itself", str(result.notes))
        self.assertEqual(with_files("P=${1-train.py}\nsrun -n 2 python $P\n", NODE, train_py="import jax\n").framework, "jax")


class Others(support.Case):
    def test_ray_that_a_called_script_starts(self):
        result = with_files("./head.sh $N\npython train.py\n", NODE, head_sh="srun -w $1 ray start --head --block &\n")
        self.assertEqual((result.launches, "Ray starts and places" in str(result.notes)), (0, True))
        self.assertEqual(of("ray disable-usage-stats\n./head.sh\npython train.py\n", NODE).launches, 0)
        self.assertEqual(of("# see ray start in head.sh\npython train.py\n", NODE).launches, 1)

    def test_the_agent_of_a_sweep_trains(self):
        body = "python make_data.py\n{}wandb agent me/mine/$SWEEP --count 1\n"
        for front in ("", "WANDB_MODE=offline "):
            self.assertEqual(body_of(of(body.format(front), ONE)), body.format(front + "dlrun --alone -- "))

    def test_what_starts_a_training_by_another_file_than_a_program(self):
        for command in ("papermill train.ipynb out.ipynb", "jupyter nbconvert --to notebook --execute train.ipynb", "make train", "dvc repro", "julia --project=. go.jl"):
            self.assertEqual(body_of(of("python make_data.py\n" + command + "\n", ONE)), f"python make_data.py\ndlrun --alone -- {command}\n")
        self.assertEqual(of("make -j8\n", ONE).launches, 0)

    def test_commands_in_an_array_that_a_loop_runs(self):
        body = 'C=("python train.py --a 1" "python train.py --a 2")\nfor c in "${{C[@]}}"; do\n  {}$c\ndone\n'
        for front in ("", "eval "):
            self.assertEqual(body_of(of(body.format(front), ONE)), body.format(front + "dlrun --alone -- "))
        body = 'C=(\n  "python ../go.py --a 1"\n  "python ../go.py --a 2"\n)\neval "{}${{C[$SLURM_ARRAY_TASK_ID]}}"\n'
        self.assertEqual(body_of(of(body.format(""), ONE)), body.format("dlrun --alone -- "))
        self.assertEqual(of('C=("a" "b")\nfor c in "${C[@]}"; do\n  $c x\ndone\n', ONE).launches, 0)

    def test_one_whose_output_goes_into_a_log_trains(self):
        for body in ("python go.py 2>&1 | tee log\n", "yolo train data=x | tee -a log\n", "apptainer exec i.sif python go.py | grep -v warn | tee log\n"):
            self.assertEqual(body_of(of(body, ONE)), "dlrun --alone -- " + body)
        self.assertEqual(body_of(with_files("bash go.sh | tee log\n", ONE, go_sh="python t.py\n")), "dlrun --alone -- bash go.sh | tee log\n")
        self.assertEqual(of("python names.py | xargs rm\n", ONE).launches, 0)

    def test_a_program_named_run_is_one_like_others(self):
        self.assertEqual(of("run train\nrun a\n", NODE).launches, 0)

    def test_several_programs_of_one_mpirun_stay(self):
        body = "mpiexec.hydra -n 2 -host a ./one : -n 1 -host b ./two\n"
        result = of(body, NODE)
        self.assertEqual((result.script, result.launches), (NODE + body, 0))
        self.assertIn("this stays with mpirun: it starts several programs", str(result.notes))

    def test_several_programs_of_one_srun_stay(self):
        for launch in ("srun --multi-prog programs.conf", "srun --het-group=0 python train.py : --het-group=1 python serve.py"):
            result = of(launch + "\n", NODE)
            self.assertEqual((result.launches, "several programs" in str(result.notes)), (0, True), launch)

    def test_a_launcher_behind_a_flag_of_a_wrapper(self):
        self.assertEqual(body_of(of("conda run -n e --no-capture-output deepspeed --num_gpus 2 --no_local_rank t.py\n", NODE)), "dlrun -- conda run -n e --no-capture-output python3 t.py\n")
        self.assertEqual(of("singularity exec i.sif ./go --backend deepspeed t.py\n", NODE).framework, "")

    def test_tasks_is_short_for_tasks_per_node(self):
        self.assertNotIn("--tasks=", of("python t.py\n", ONE + "#SBATCH --tasks=1\n").script)

    def test_a_command_right_behind_the_last_line(self):
        self.assertEqual(of("python t.py\n", "#!/bin/bash\n#SBATCH --time=1\n").script, "#!/bin/bash\n#SBATCH --time=1\n#SBATCH --dl-learners=1\ndlrun --alone -- python t.py\n")

    def test_a_script_that_is_read_here_is_not_said_to_be_unread(self):
        self.assertNotIn("not looked into", str(with_files("srun -n 2 ./go.sh\n", NODE, go_sh="python t.py\n").notes))


if __name__ == "__main__":
    support.main()
