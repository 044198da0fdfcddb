# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: a batch script that calls another one, which starts the training; containers that it starts itself; and -n 16
for the CPUs of one program."""
import os
import subprocess
import sys
import tempfile

import support
from test_migrate import body_of, of

sys.path.insert(0, os.path.join(support.SOURCE, "launcher", "python"))
from dl.migrate.rewrite import migrate  # noqa: E402

ONE = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gpus-per-node=4\n#SBATCH --cpus-per-task=16\n"
LAUNCH = "#!/bin/bash\nmodule load cuda\n# torchrun starts four\nOMP_NUM_THREADS=8 torchrun --standalone \\\n  --nproc_per_node=$SLURM_GPUS_PER_NODE ./train.py --epochs $1\necho done\n"


class Called(support.Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        os.mkdir(os.path.join(self.folder, "slurm"))

    def put(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)
        os.chmod(os.path.join(self.folder, name), 0o755)

    def of(self, body, head=ONE, **options):
        return migrate(head + body, os.path.join(self.folder, "slurm"), **options)

    def test_the_launch_in_a_script_that_it_calls_is_translated_there(self):
        self.put("launch.sh", LAUNCH)
        for call in ("./launch.sh 90", "bash launch.sh 90", "exec bash -e ${SLURM_SUBMIT_DIR}/launch.sh 90"):
            result = self.of(call + "\necho over\n")
            self.assertEqual(result.script, "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --dl-learners=4 --dl-gpus=1\n".replace("--dl-l", "--dl-framework=pytorch --dl-l")
                             + "#SBATCH --cpus-per-task=4\n" + call + "\necho over\n")
            (part,) = result.others
            self.assertEqual(part.old, LAUNCH)
            self.assertEqual(part.new, "#!/bin/bash\nmodule load cuda\n# torchrun starts four\nOMP_NUM_THREADS=8 dlrun -- python3 ./train.py --epochs $1\necho done\n")
            self.assertEqual(part.place, os.path.join(self.folder, "launch.sh"))
            self.assertIn((5, f"{'${SLURM_SUBMIT_DIR}/' if 'SUBMIT' in call else './' if call[0] == '.' else ''}launch.sh starts the training, so it is changed, too"),
                          [tuple(note) for note in result.notes])

    def test_notes_name_the_line_of_the_script_that_has_it(self):
        self.put("launch.sh", "# one\n# two\nsource /nowhere/env.sh\ntorchrun --nproc_per_node 4 --odd t.py\n")
        notes = [tuple(note) for note in self.of("cd x\nbash launch.sh\necho $SLURM_GPUS_PER_NODE\n").notes]
        self.assertIn((6, "launch.sh:4: '--odd' of torchrun is not known here; it is left out"), notes)
        self.assertTrue(any(line == 7 and text.startswith("SLURM_GPUS_PER_NODE is only set for") for line, text in notes), notes)

    def test_one_process_is_started_as_it_stands(self):
        self.put("run.sh", "python prepare.py\nPYTHONPATH=. python train.py --gpus 4\npython test.py\n")
        for call, new in (("bash run.sh a b", "dlrun --alone -- bash run.sh a b"), ("exec ./run.sh", "exec dlrun --alone -- ./run.sh"), ("X=1 sh run.sh | tee log", "X=1 dlrun --alone -- sh run.sh | tee log"), ("sh run.sh | xargs rm", "sh run.sh | xargs rm")):
            result = self.of(call + "\n")
            self.assertEqual(body_of(result), new + "\n")
            self.assertEqual(result.others, ())

    def test_what_is_not_plain_stays(self):
        self.put("a.sh", LAUNCH)
        self.put("submit.sh", "for i in 1 2; do sbatch a.sh; done; python x.py\n")
        self.put("say.sh", "echo torchrun-free\n")
        for body in ("bash submit.sh\n", "bash say.sh\n", "bash gone.sh\n", "cat a.sh\n"):
            result = self.of(body)
            self.assertEqual((result.launches, result.script), (0, ONE + body), body)

    def test_several_scripts_that_it_calls_are_translated(self):
        self.put("env.sh", "pip install accelerate\nexport A=1\n")
        self.put("a.sh", LAUNCH)
        self.put("b.sh", "#!/bin/bash\n#SBATCH --nodes=7\nset -e\naccelerate launch --num_processes 4 b.py\n")
        result = self.of("source env.sh\nB=b.sh\nbash a.sh\nif true; then bash $B x; fi\necho $SLURM_GPUS_PER_NODE\n")
        self.assertEqual((result.launches, result.learners, result.gpus), (2, "4", 1))
        self.assertEqual([os.path.basename(part.place) for part in result.others], ["a.sh", "b.sh"])
        self.assertIn("dlrun -- python3 ./train.py", result.others[0].new)
        self.assertEqual(result.others[1].new, "#!/bin/bash\n#SBATCH --nodes=7\nset -e\ndlrun -- python3 b.py\n")
        self.assertTrue(result.script.endswith("source env.sh\nB=b.sh\nbash a.sh\nif true; then bash $B x; fi\necho 4\n"), result.script)
        self.assertIn((9, "SLURM_GPUS_PER_NODE is only set for --gpus-per-node, which has gone: 4 is written in its place"), [tuple(note) for note in result.notes])

    def test_every_launcher_is_known_in_it(self):
        for line, learners in (("tune run --nproc_per_node 4 full_finetune_distributed --config c.yaml", "4"), ("composer -n 4 t.py", "4"), ("colossalai run --nproc_per_node 4 t.py", "4"),
                               ("python -m composer.cli.launcher -n 4 t.py", "4"), ("orterun -n 2 ./t", "2"), ("/opt/bin/mpiexec.hydra -n 2 ./t", "2"), ("$TORCHRUN --nproc_per_node 4 t.py", "4")):
            self.put("go.sh", line + "\n")
            result = self.of("bash go.sh\n")
            self.assertEqual((body_of(result), result.learners), ("bash go.sh\n", learners), line)
            self.assertEqual([part.new[:9] for part in result.others], ["dlrun -- "])

    def test_a_sourced_script_may_start_the_training(self):
        self.put("go.sh", "torchrun --nproc_per_node 4 t.py\n")
        for word in ("source", "."):
            result = self.of(word + " ./go.sh\n")
            self.assertEqual((body_of(result), result.others[0].new), (word + " ./go.sh\n", "dlrun -- python3 t.py\n"))
        self.put("one.sh", "python t.py  # instead of torchrun\n")
        self.assertEqual(self.of("source one.sh\n").launches, 0)

    def test_of_scripts_without_a_launcher_the_last_is_the_training(self):
        self.put("prepare.sh", "python prepare.py\n")
        self.put("train.sh", "python train.py\n")
        self.assertEqual(body_of(self.of("bash prepare.sh\nbash train.sh 1\n")), "bash prepare.sh\ndlrun --alone -- bash train.sh 1\n")

    def test_each_call_of_the_same_script_is_translated(self):
        self.put("train.sh", "torchrun --nproc_per_node 4 --odd t.py $1\n")
        for body in ("if [ -n x ]; then\n  bash train.sh a\nelse\n  ./train.sh b\nfi\n", "\nbash train.sh a\nX=1 exec bash -e train.sh b\n\n"):
            result = self.of(body, copies=True)
            self.assertEqual(body_of(result), body.replace("train.sh", "train.sh.dl"))
            self.assertEqual((result.learners, [part.new for part in result.others]), ("4", ["dlrun -- python3 t.py $1\n"]))
            changed = [note.line for note in result.notes if note.text.endswith("train.sh starts the training, so it is changed, too")]
            self.assertEqual(changed, [line for line, text in enumerate((ONE + body).split("\n"), 1) if "train.sh" in text])
            self.assertEqual(sum("--odd" in note.text for note in result.notes), 1)

    def test_calls_that_need_different_changes_are_named(self):
        self.put("train.sh", "torchrun --nproc_per_node $N t.py\n")
        body = "if [ -n x ]; then\n  N=2; bash train.sh a\nelse\n  N=4; bash train.sh b\nfi\n"
        result = self.of(body)
        self.assertEqual((result.launches, result.script, result.others), (0, ONE + body, ()))
        self.assertIn((6, "train.sh needs other changes for the call in line 8 than for this one, so neither is changed: make a script for each, and run dlctl migrate again"),
                      [tuple(note) for note in result.notes])

    def test_each_call_of_the_same_program_without_a_launcher_is_a_learner(self):
        self.put("train.sh", "python train.py $1\n")
        for body in ("if [ -n x ]; then\n  bash train.sh a\nelse\n  ./train.sh b\nfi\n", "bash train.sh a\nbash train.sh b\n"):
            result = self.of(body, copies=True)
            self.assertEqual(body_of(result), body.replace("bash t", "dlrun --alone -- bash t").replace("./t", "dlrun --alone -- ./t"))
            self.assertEqual((result.learners, result.gpus, result.others), ("1", 4, ()))

    def test_scripts_that_run_python_and_stay_are_named(self):
        self.put("prepare.sh", "python prepare.py\n")
        self.put("train.sh", "python train.py\n")
        self.put("say.sh", "python --version\n")
        result = self.of("bash prepare.sh\nbash train.sh 1\nbash say.sh\n")
        self.assertEqual(body_of(result), "bash prepare.sh\ndlrun --alone -- bash train.sh 1\nbash say.sh\n")
        self.put("help.sh", "echo instead of torchrun t.py\n")
        self.assertNotIn("help.sh", str(self.of("source help.sh\nbash train.sh 1\n").notes))
        self.assertIn((5, "prepare.sh stays as it is; if it trains, too, write dlrun --alone -- in front of it"), [tuple(note) for note in result.notes])

    def test_a_script_called_within_the_words_of_another_is_no_part_of_it(self):
        self.put("a.sh", "torchrun --nproc_per_node 4 a.py $1\n")
        self.put("b.sh", "torchrun --nproc_per_node 4 b.py\n")
        for inner in ("$(bash b.sh)", "`bash b.sh`", "<(bash b.sh)", '"$(bash b.sh; bash a.sh)"'):
            result = self.of(f"bash a.sh {inner}\n", copies=True)
            self.assertEqual((body_of(result), [part.new for part in result.others]), (f"bash a.sh.dl {inner}\n", ["dlrun -- python3 a.py $1\n"]))

    def test_scripts_in_the_background_share_the_gpus(self):
        self.put("one.sh", "python t.py $1\n")
        self.put("two.sh", "torchrun --nproc_per_node 2 t.py\n")
        self.put("more.sh", "cd /d\ntorchrun --nproc_per_node 2 u.py\n")
        for body, learners, gpus in (("for i in 0 1 2 3; do\n  bash one.sh $i &\ndone\nwait\n", "4", 1), ("bash two.sh &\nbash more.sh &\nwait\n", "4", 1),
                                     ("bash two.sh &\nbash two.sh &\nwait\n", "4", 1), ("bash two.sh\nbash more.sh\n", "2", 2), ("bash one.sh &\nwait\n", "1", 4),
                                     ("bash one.sh &\nPID=$!\nwait $PID\n", "1", 4)):
            result = self.of(body)
            self.assertEqual((result.learners, result.gpus), (learners, gpus), body)

    def test_a_script_that_lies_elsewhere_is_named(self):
        self.put("train.sh", "torchrun --nproc_per_node 4 t.py\n")
        place = os.path.relpath(os.path.join(self.folder, "train.sh"))
        for name in ("/other/place/train.sh", "$REPO/train.sh"):
            notes = [tuple(note) for note in self.of(f"bash {name}\n", copies=True).notes]
            why = f"{name} is not here" if name[0] == "/" else f"where {name} lies is not known here"
            self.assertIn((5, f"{why}; {place} was read in its place: put {place}.dl there as {name}.dl"), notes)
            self.assertIn((5, f"{why}; {place} was read in its place: make its changes there, too"), [tuple(note) for note in self.of(f"bash {name}\n").notes])
        for name in ("./train.sh", "${SLURM_SUBMIT_DIR}/train.sh", '"$(dirname "$0")"/train.sh', os.path.join(self.folder, "train.sh")):
            self.assertNotIn("in its place", str(self.of(f"bash {name}\n", copies=True).notes))
        self.put("train.sh", "python t.py\n")
        self.assertIn((5, f"/other/place/train.sh is not here; {place} was read in its place"), [tuple(note) for note in self.of("bash /other/place/train.sh\n").notes])

    def test_slashes_without_end_take_no_time(self):
        self.put("launch.sh", LAUNCH)
        self.assertEqual(len(self.of("bash " + "/" * 60 + "launch.sh 90\n").others), 1)

    def test_both_are_shown_and_written(self):
        self.put("launch.sh", LAUNCH)
        self.put("slurm/job.sh", ONE + "./launch.sh 90\n")
        command = [sys.executable, "-m", "dl.migrate", "slurm/job.sh"]
        here = {"cwd": self.folder, "env": dict(os.environ, PYTHONPATH=os.path.join(support.SOURCE, "launcher", "python")), "capture_output": True, "text": True}
        shown = subprocess.run(command, **here, check=True).stdout
        self.assertEqual([line for line in shown.splitlines() if line.startswith("+++")], ["+++ slurm/job.sh.dl", "+++ launch.sh.dl"])
        subprocess.run(["patch", "-p0", "--dry-run"], input=shown, **{**here, "capture_output": True}, check=True)
        said = subprocess.run(command + ["--write", "slurm/new.sh"], **here, check=True).stderr
        self.assertIn("wrote slurm/new.sh and launch.sh.dl, which it calls: 4 learners", said)
        with open(os.path.join(self.folder, "slurm/new.sh")) as file:
            self.assertTrue(file.read().endswith("\n./launch.sh.dl 90\n"))
        self.assertTrue(os.access(os.path.join(self.folder, "launch.sh.dl"), os.X_OK))
        with open(os.path.join(self.folder, "launch.sh")) as file:
            self.assertEqual(file.read(), LAUNCH)


class Containers(support.Case):
    def test_a_container_that_the_batch_script_starts_is_one_learner(self):
        for call in ('singularity exec --nv x.sif bash -c "\nsource e.sh\npython -m pkg.train a=b || exit\n"', 'apptainer exec --nv $IMG bash -lc "\n  python3 check.py\n  python3 t.py\n"',
                     "singularity exec --nv docker://a/b:1 ${HOME}/x/train.sh", 'docker run --gpus all --rm img bash -c "pip install x && python3 tools/train.py $C"',
                     "podman run img python3 t.py"):
            result = of(call + "\n", "#!/bin/bash\n#SBATCH --gres=gpu:2\n")
            self.assertEqual(body_of(result), "dlrun --alone -- " + call + "\n")
            self.assertEqual((result.learners, result.gpus), ("1", 2))

    def test_what_trains_nothing_stays(self):
        for call in ("docker build -t x .", 'singularity exec x.sif bash -c "python -m pip install y"', "singularity pull x.sif docker://y", "docker run --rm img ls"):
            self.assertEqual(of(call + "\n", "#!/bin/bash\n#SBATCH --gres=gpu:2\n").launches, 0, call)


class Cpus(support.Case):
    def test_tasks_that_only_ask_for_cpus_are_cpus_of_the_learners(self):
        for asked, program, cpus in (("-n 16", "python t.py", 16), ("--ntasks=8\n#SBATCH --cpus-per-task=2", "python t.py", 16),
                                     ("-N 1\n#SBATCH -n 64", "torchrun --standalone --nproc_per_node=4 t.py", 16), ("--ntasks-per-node=12", "python t.py", 12)):
            result = of(program + "\n", f"#!/bin/bash\n#SBATCH {asked}\n#SBATCH --gres=gpu:4\n")
            self.assertIn(f"#SBATCH --cpus-per-task={cpus}\n", result.script, asked)

    def test_tasks_of_srun_are_not(self):
        for program in ("srun python t.py", "mpirun python t.py"):
            self.assertNotIn("cpus-per-task", of(program + "\n", "#!/bin/bash\n#SBATCH -n 4\n#SBATCH --gres=gpu:4\n").script)

    def test_a_program_that_says_by_its_name_that_it_trains(self):
        for program in ("multipa-train --data d", "fairseq-train d --arch a", "yolo train model=m", "llamafactory-cli train x.yaml", "uv run ns-train nerfacto", "nnUNetv2_train 1 2d 0"):
            self.assertEqual(body_of(of("echo a\n" + program + "\n", "#!/bin/bash\n#SBATCH --gres=gpu:1\n")), "echo a\ndlrun --alone -- " + program + "\n")
        for program in ("cp train x", "echo train", "tar train", "cd train", "ls out/train", "train", "git train x"):
            self.assertEqual(of(program + "\n", "#!/bin/bash\n#SBATCH --gres=gpu:1\n").launches, 0, program)

    def test_a_loop_whose_branches_start_the_first_node_and_the_others(self):
        head = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n"
        start = "srun --nodes=1 --ntasks=1 -w $n torchrun --nproc_per_node=4 --nnodes=2 --node_rank=%s --master_addr=$a --master_port=1 t.py --x 1 &\n"
        body = 'c=0\nfor n in $list; do\n  if [ "$n" == "$first" ]; then\n    ' + start % 0 + "  else\n    ((c++))\n    " + start % "$c" + "  fi\ndone\nwait\n"
        result = of(body, head)
        self.assertEqual(body_of(result), "c=0\ndlrun -- python3 t.py --x 1\n")
        self.assertEqual((result.learners, result.gpus), ("8", 1))
        # What differs between them is not thrown away.
        self.assertIn("take it out of the loop", str(of(body.replace("--x 1", "--x 2", 1), head).notes))

    def test_the_name_of_an_environment_is_no_launcher(self):
        self.assertNotIn("torchrun", str(of("source activate torchrun\npython t.py\n").notes))


if __name__ == "__main__":
    support.main()
