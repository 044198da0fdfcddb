# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: commands that run others (eval, parallel, xargs, pdsh), containers that a file describes, and Lightning on several nodes."""
import os
import subprocess
import sys
import tempfile

import support
from test_migrate import STANDINS, body_of, of

sys.path.insert(0, os.path.join(support.SOURCE, "launcher", "python"))

NODE = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gpus-per-node=4\n#SBATCH --ntasks=1\n"
NODES = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n#SBATCH --cpus-per-task=32\n"
TORCHRUN = "torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$h:29500 t.py"


class Eval(support.Case):
    def test_an_eval_of_a_variable_with_several_commands_runs_each(self):
        for text in ('"cd . && torchrun --nproc_per_node=4 t.py --lr 1"', "'cd .; torchrun --nproc_per_node=4 t.py --lr 1'"):
            for call in ("eval $CMD", 'eval "$CMD"', 'if true; then eval "$CMD"; fi'):
                result = of(f"CMD={text}\n{call}\n", NODE)
                self.assertEqual((result.learners, result.gpus), ("4", 1), result.script)
                self.assertIn("dlrun -- python3 t.py --lr 1" + text[0], result.script)
                done = subprocess.run(["bash", "-c", STANDINS + body_of(result)], capture_output=True, text=True)
                self.assertEqual((done.stdout, done.stderr), ("<t.py><--lr><1>", ""), result.script)

    def test_local_rank_in_the_text_that_an_eval_reads(self):
        for quote in "\"'":
            result = of(f"CMD={quote}cd .; python -m torch.distributed.launch --nproc_per_node=4 t.py --lr 1{quote}\neval $CMD\n", NODE)
            done = subprocess.run(["bash", "-c", STANDINS + body_of(result)], capture_output=True, text=True)
            self.assertEqual((done.stdout, done.stderr), ("<t.py><--lr><1><--local_rank=3>", ""), result.script)

    def test_one_command_is_started_where_the_eval_stands(self):
        self.assertEqual(body_of(of('CMD="python t.py --lr 1"\neval $CMD\n', NODE)), 'CMD="python t.py --lr 1"\neval dlrun --alone -- $CMD\n')


class Functions(support.Case):
    def test_a_function_that_srun_runs_on_each_node_is_a_training_only_if_it_trains(self):
        prepare = "prepare() {\n    mkdir -p \"$TMPDIR/cache\"\n}\nexport -f prepare\n"
        for call in ("srun --ntasks-per-node=1 bash -c prepare", "srun bash -lc prepare", 'srun bash -c "prepare"'):
            result = of(f"{prepare}{call}\nsrun {TORCHRUN}\n", NODES)
            self.assertRegex(result.script, r"\nsrun [^\n]*bash -l?c \"?prepare\"?\n")
            self.assertEqual((result.learners, result.gpus), ("8", 1), result.script)
        result = of("train() {\n    python3 t.py\n}\nexport -f train\nsrun bash -c train\n", NODES)
        self.assertIn("\ndlrun -- bash -c train\n", result.script)


class GoingOn(support.Case):
    def test_a_line_that_does_not_go_on_does(self):
        for behind in ("  # one for each GPU", " ", " \t"):
            result = of(f"srun torchrun --nnodes 2 \\\n  --nproc_per_node 4 \\{behind}\n  --rdzv_endpoint $h:1 \\\n  t.py --lr 1\n", NODES)
            self.assertEqual((result.learners, body_of(result)), ("8", "dlrun -- python3 t.py --lr 1\n"))
            self.assertEqual([note.line for note in result.notes], [7])

    def test_other_lines_with_such_an_end_stay(self):
        for body in ("echo a\\ b\\ \ntorchrun --nproc_per_node=4 t.py\n", "torchrun --nproc_per_node=4 t.py --name a\\ \n-x\n", "cat <<E\na \\ # b\n --c\nE\ntorchrun --nproc_per_node=4 t.py\n"):
            self.assertNotIn("go on", str(of(body, NODE).notes), body)


class Parallel(support.Case):
    def test_what_parallel_and_xargs_run_shares_the_gpus_of_the_job(self):
        for before, program, after in (
                ("parallel -j 4 --delay 1 ", "python train.py --seed {}", " ::: 1 2 3 4"), ('seq 0 3 | parallel -j4 "', "python train.py --seed {}", '"'),
                ('parallel -j 4 "', "python train.py --fold {1} --lr {2}", '" ::: 1 2 ::: 3 4'), ("seq 0 3 | xargs -P 4 -I{} ", "python train.py --seed {}", ""),
                ("nohup parallel --jobs=4 --joblog log ", "python train.py", " :::: seeds.txt")):
            result = of(before + program + after + "\n", NODE)
            self.assertEqual((result.learners, result.gpus), ("4", 1), result.script)
            self.assertEqual(body_of(result), f"{before}dlrun --learners 1 --alone -- {program}{after}\n")

    def test_srun_in_front_of_each_goes(self):
        for body in ('parallel -j 4 srun -N1 -n1 --exclusive python train.py {} ::: 1 2 3 4\n', 'S="srun -N1 -n1 --exclusive"\nP="parallel -j 4 --resume"\n$P "$S python train.py {}" ::: 1 2 3 4\n'):
            result = of(body, NODE)
            self.assertEqual((result.learners, result.gpus), ("4", 1), result.script)
            self.assertNotIn("srun", result.script)
            self.assertIn("dlrun --learners 1 --alone -- python train.py {}", result.script)

    def test_what_takes_its_number_by_the_gpu_still_gets_it(self):
        result = of('parallel -j4 "CUDA_VISIBLE_DEVICES={} python train.py" ::: 0 1 2 3\n', NODE)
        self.assertEqual(body_of(result), 'parallel -j4 "CUDA_VISIBLE_DEVICES={} dlrun --learners 1 --alone -- python train.py" ::: 0 1 2 3\n')

    def test_what_is_not_known_stays(self):
        for body in ("parallel -S n1,n2 python train.py {} ::: 1 2\n", "cat tasks | parallel -j 4 srun -N1 -n1 {}\n", "find . | xargs -P 4 gzip\n", "parallel\n", "xargs -P 4\n"):
            self.assertEqual(of(body, NODE).launches, 0, body)


class Pdsh(support.Case):
    def test_what_starts_the_launcher_of_each_node_becomes_one_launch(self):
        for front in ("pdsh -w $SLURM_JOB_NODELIST", "pdsh -R ssh -w ^hosts", "clush -w $SLURM_JOB_NODELIST", 'parallel-ssh -H "$hosts" -t 0 -i', "pssh -h hosts -t 0"):
            result = of(f'{front} "cd $PWD; {TORCHRUN} --lr 1"\n', NODES)
            self.assertEqual((result.learners, result.gpus), ("8", 1), result.script)
            self.assertEqual(body_of(result), 'dlrun -- bash -c "cd $PWD; python3 t.py --lr 1"\n')
            self.assertIn("--cpus-per-task=8\n", result.script)

    def test_other_commands_stay(self):
        for body in ('pdsh -w $SLURM_JOB_NODELIST "mkdir -p /tmp/x"\n', "pdsh -w $SLURM_JOB_NODELIST hostname\n"):
            self.assertEqual(of(body, NODES).launches, 0)


class Described(support.Case):
    """srun --environment=NAME, a file in TOML."""

    def test_the_container_that_a_file_describes(self):
        if sys.version_info < (3, 11):
            self.skipTest("this Python has no tomllib")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "env.toml"), "w") as file:
                file.write('image = "/images/i.sqsh"\nmounts = ["/data:/data", "${SCRATCH}:${SCRATCH}"]\nworkdir = "/w"\n[env]\nA = "1 2"\n[annotations]\ncom.hooks.x.enabled = "true"\n')
            with open(os.path.join(folder, "more.toml"), "w") as file:
                file.write('base_environment = "env"\nworkdir = "/v"\n[env]\nB = "$A"\n')
            result = of(f"srun --environment=env {TORCHRUN}\n", NODES, folder)
            self.assertEqual(body_of(result), "A='1 2' APPTAINER_BIND=\"/data:/data,${SCRATCH}:${SCRATCH}\" dlrun --image /images/i.sqsh -- bash -c 'cd \"$0\" && exec \"$@\"' /w python3 t.py\n")
            self.assertIn("(annotations) are not run", str(result.notes))
            for name in ("more", "/home/a/.edf/more.toml", "./more.toml", "$PWD/more.toml"):
                script = of(f"srun --environment={name} --ntasks=8 python t.py\n", NODES, folder).script
                self.assertIn("dlrun --image /images/i.sqsh -- bash -c 'cd \"$0\" && exec \"$@\"' /v python t.py", script, name)
                self.assertIn("B=\"$A\"", script)

    def test_one_that_cannot_be_read_stays_with_srun(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("no", "workdir='/'"), ("bad", "= ["), ("round", "base_environment='round'\nimage='/i.sqsh'")):
                with open(os.path.join(folder, name + ".toml"), "w") as file:
                    file.write(text)
            for name in ("no", "bad", "round", "nosuch"):
                result = of(f"srun --environment={name} {TORCHRUN}\n", NODES, folder)
                self.assertEqual(result.launches, 0)
                self.assertIn("described by a file that cannot be read here", str(result.notes))


class Texts(support.Case):
    def test_a_variable_that_the_text_of_a_shell_sets(self):
        launcher = "torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$h:1"
        for text, new in ((f'L="{launcher}"; $L t.py', 'L=""; python3 t.py'), (f"L=({launcher}\n t.py)\n\"${{L[@]}}\" --a", 'L=(python3 t.py)\n"${L[@]}" --a'),
                          (f'if x; then L="{launcher}"; else L=python; fi; $L t.py', 'if x; then L="python3"; else L=python; fi; $L t.py')):
            result = of(f"srun bash -c '{text}'\n", NODES)
            self.assertEqual((result.learners, body_of(result)), ("8", f"dlrun -- bash -c '{new}'\n"))

    def test_two_variables_in_one_word(self):
        body = "A='monitor & '\nB='{}t.py --a'\n{}bash -c \"${{A}}${{B}}\"\n"
        result = of(body.format("torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$SLURM_PROCID --master_addr=$h ", "srun "), NODES)
        self.assertEqual((result.learners, body_of(result)), ("8", body.format("python3 ", "dlrun -- ")))

    def test_an_assignment_behind_then_is_one(self):
        result = of('if [ "$1" ]; then N=2; else N=4; fi\ntorchrun --nproc_per_node=4 t.py\n', NODE)
        self.assertEqual(result.learners, "4")
        result = of('if true; then L="torchrun --nproc_per_node=4"; fi\n$L t.py\n', NODE)
        self.assertEqual(body_of(result), 'if true; then L=""; fi\ndlrun -- python3 t.py\n')


class Templates(support.Case):
    def test_tasks_that_only_a_variable_counts_are_those_that_sbatch_is_told(self):
        head = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks={0}\n#SBATCH --gres=gpu:{0}\n"
        for number in ("${NUM}", "{{ num }}", "{{num|int}}", "{num}"):
            result = of("srun python t.py\n", head.format(number))
            self.assertEqual(result.script, head.format(number) + "dlrun -- python t.py\n")
            self.assertIn("known only where the job runs", str(result.notes))
        written = "sbatch <<EOT\n" + head.format("$1") + "{} python t.py\nEOT\n"
        self.assertEqual(of(written.format("srun"), "#!/bin/bash\n").script, "#!/bin/bash\n" + written.format("dlrun --"))

    def test_a_name_that_something_else_fills_in_is_one_word(self):
        head = "#!/bin/bash\n#SBATCH --nodes={{ nodes }}\n#SBATCH --gpus-per-node={{ gpus }}\n"
        result = of("srun torchrun --nnodes {{ nodes }} --nproc_per_node {{ gpus | int }} --rdzv_endpoint $h:1 {{ program }} {{ more }}\n", head)
        self.assertEqual(result.script, head + "dlrun --framework pytorch --learners auto -- python3 {{ program }} {{ more }}\n")
        self.assertEqual(body_of(of("f() { { echo; } 2>&1; }\ntorchrun --nproc_per_node=4 t.py {{a,b},c}\n", NODE)), "f() { { echo; } 2>&1; }\ndlrun -- python3 t.py {{a,b},c}\n")


class Lightning(support.Case):
    """python alone, in a job of several nodes."""
    PROGRAM = "import lightning as L\ntrainer = L.Trainer(devices={}, num_nodes={}, strategy='ddp')\n"

    def learners(self, command, head=NODES, program=""):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "t.py"), "w") as file:
                file.write(program)
            return of(command + "\n", head, folder)

    def test_lightning_that_is_told_of_all_nodes_has_learners_on_them(self):
        for command, program in (("python t.py", self.PROGRAM.format(4, 2)), ("python t.py --num_nodes 2", self.PROGRAM.format("a.gpus", "a.nodes")),
                                 ("python t.py --num-nodes=$SLURM_NNODES", "import pytorch_lightning as pl\n"), ("python -m main --trainer.num_nodes=2 --trainer.devices=4", ""),
                                 ("python main.py trainer.num_nodes=2", "")):
            result = self.learners(command, program=program)
            self.assertEqual((result.learners, result.gpus), ("8", 1), command)
            self.assertEqual(body_of(result), f"dlrun -- {command}\n")
            self.assertIn("--cpus-per-task=8\n", result.script)
        self.assertEqual(self.learners("python t.py", program=self.PROGRAM.format(1, 2)).learners, "2")

    def test_one_node_of_several_stays_one_process(self):
        for command, program in (("python t.py", self.PROGRAM.format(4, 1)), ("python t.py --num_nodes 2", "import torch\n"), ("python t.py --num_nodes 3", self.PROGRAM.format(4, "n"))):
            self.assertEqual(self.learners(command, program=program).learners, "1", command)


if __name__ == "__main__":
    support.main()
