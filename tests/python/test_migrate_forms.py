# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: commands that dlrun starts in another form. What becomes of them is written out, and run by bash where it matters."""
import os
import subprocess
import sys
import tempfile

import support
from test_migrate import HEAD, body_of, of

sys.path.insert(0, os.path.join(support.SOURCE, "launcher", "python"))

ONE_NODE = HEAD.replace("nodes=2", "nodes=1")
LEARNER = 'dlrun() { while [ "$1" != -- ]; do shift; done; shift; LOCAL_RANK=$RANK_HERE RANK=$RANK_HERE WORLD_SIZE=2 "$@"; }\n'


def bash(code, **environment):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(["bash", "-c", code], capture_output=True, text=True, cwd=folder, env={**os.environ, **environment})


class Ssh(support.Case):
    """A loop that starts one node at a time by ssh."""

    def test_a_loop_becomes_one_dlrun(self):
        loop = 'i=0\nfor h in $(scontrol show hostnames); do\n  {}\n  i=$((i + 1))\ndone\nwait\necho done\n'
        for command, expected in (
                ('ssh $h "cd /d; export A=1; torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$i --master_addr $m t.py --lr 1" &', 'dlrun -- bash -c "cd /d; export A=1; python3 t.py --lr 1"'),
                ('ssh -o StrictHostKeyChecking=no -tt $h "cd /d && torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$i t.py" &', 'dlrun -- bash -c "cd /d && python3 t.py"'),
                ('ssh -oBatchMode=yes $h torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$i t.py &', "dlrun -- python3 t.py"),
                ('ssh $h "cd /d; torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$m:1 t.py" &', 'dlrun -- bash -c "cd /d; python3 t.py"'),
                ('ssh $h "cd /d; nohup torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$i t.py > log 2>&1 &"', 'dlrun -- bash -c "cd /d; nohup python3 t.py > log 2>&1 "')):
            result = of(loop.format(command))
            self.assertEqual((body_of(result), result.learners, result.gpus), (f"i=0\n{expected}\necho done\n", "8", 1), command)

    def test_other_commands_of_ssh_stay(self):
        for body in ('ssh $h "pkill python"\n', 'ssh $h "torchrun --nproc_per_node=4 t.py"\n', "ssh $h\n"):
            self.assertEqual(of(body).launches, 0, body)


class Document(support.Case):
    """A program in a here document."""
    BODY = "import os, sys, torch.distributed as d\nd.init_process_group('gloo'); print(\"it's (\", sys.argv[1:], '$N')\n"

    def test_each_learner_has_it(self):
        for call, mark, expected in (
                ("srun python -u - --lr 1 {} > log || exit 1", "<<'EOF'", "dlrun -- python -u -c \"$(cat <<'EOF'\n{}EOF\n)\" --lr 1  > log || exit 1\n"),
                ("srun python3 {}", "<<EOF", "dlrun -- python3 -c \"$(cat <<EOF\n{}EOF\n)\"\n"),
                ("srun python3 - {} && echo ended", "<< 'EOF'", "dlrun -- python3 -c \"$(cat << 'EOF'\n{}EOF\n)\" && echo ended\n")):
            result = of(f"{call.format(mark)}\n{self.BODY}EOF\necho after\n")
            self.assertEqual(body_of(result), expected.format(self.BODY) + "echo after\n")
            self.assertEqual((result.learners, result.framework), ("2", "pytorch"))

    def test_bash_hands_the_same_program_on(self):
        for mark, n in (("<<'EOF'", "$N"), ("<<EOF", "5")):
            script = body_of(of(f"N=5\nsrun python3 - a 'b c' {mark}\n{self.BODY}EOF\necho after\n"))
            folder = tempfile.mkdtemp()
            os.makedirs(os.path.join(folder, "torch"))
            open(os.path.join(folder, "torch", "__init__.py"), "w").close()
            with open(os.path.join(folder, "torch", "distributed.py"), "w") as file:
                file.write("def init_process_group(backend): pass\n")
            done = bash(LEARNER + script, RANK_HERE="0", PYTHONPATH=folder)
            self.assertEqual(done.stdout, f"it's ( ['a', 'b c'] {n}\nafter\n", done.stderr)

    def test_one_that_trains_nothing_stays(self):
        for body in ("srun python3 - <<EOF\nprint(1)\nEOF\n", "srun python3 <<EOF\nimport torch\nprint(torch.cuda.device_count())\nEOF\n"):
            self.assertEqual(of(body + "torchrun --nproc_per_node=4 t.py\n").script.count("srun --ntasks=2 python3"), 1)
        self.assertEqual(of("srun python3 - <<EOF\nprint(1)\nEOF\n").launches, 1)  # nothing else in the script could be it


class Wrap(support.Case):
    """sbatch --wrap."""

    def test_options_and_text_become_those_of_a_script(self):
        torch = "srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=\\$h:1 t.py --lr $lr"
        for old, new in (
                (f'sbatch -J x --nodes=2 --gpus-per-node=4 --ntasks-per-node 1 --time=1 --wrap="source a; {torch}"',
                 'sbatch -J x --nodes=2 --time=1 --dl-framework=pytorch --dl-learners=8 --dl-gpus=1 --wrap="source a; dlrun -- python3 t.py --lr $lr"'),
                ("sbatch --nodes=2 --gres=gpu:4 --wrap 'srun python t.py'", "sbatch --nodes=2 --dl-learners=2 --dl-gpus=4 --wrap 'dlrun -- python t.py'"),
                ('sbatch -N $N --gres=gpu:4 --wrap "srun torchrun --nnodes=\\$SLURM_NNODES --nproc_per_node=4 --rdzv_endpoint=\\$h:1 t.py"',
                 'sbatch -N $N --gres=gpu:4 --wrap "dlrun --framework pytorch --learners \\$((SLURM_NNODES * 4)) -- python3 t.py"'),
                ('sbatch --nodes=1 \\\n  --gpus=2 \\\n  --wrap="torchrun --nproc_per_node=2 t.py"',
                 'sbatch --nodes=1 \\\n  --dl-framework=pytorch --dl-learners=2 --dl-gpus=1 --wrap="dlrun -- python3 t.py"')):
            result = of(f"for lr in 1 2; do\n{old}\ndone\n", "#!/bin/bash\n")
            self.assertEqual(result.script, f"#!/bin/bash\nfor lr in 1 2; do\n{new}\ndone\n")
            subprocess.run(["bash", "-n"], input=result.script, text=True, check=True)

    def test_one_that_is_no_launch_is_told_and_stays(self):
        script = '#!/bin/bash\nsbatch --wrap="hostname; nvidia-smi"\n'
        result = of(script, "")
        self.assertEqual((result.script, result.launches), (script, 0))
        self.assertIn("--wrap", str(result.notes))


class Written(support.Case):
    """A batch script that a script writes and submits."""
    JOB = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\n#SBATCH --ntasks-per-node=1\n"
    NEW = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --dl-framework=pytorch --dl-learners=8 --dl-gpus=1\n"

    def test_it_is_translated_as_a_job(self):
        launch = "srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=h:1 t.py --lr ${LR}\n"
        for mark, end in (("<<EOF", "EOF"), ("<< 'X'", "X")):
            result = of(f"for LR in 1 2; do\ncat > job.sh {mark}\n{self.JOB}{launch}{end}\nsbatch job.sh\ndone\n", "#!/bin/bash\n")
            self.assertEqual(result.script, f"#!/bin/bash\nfor LR in 1 2; do\ncat > job.sh {mark}\n{self.NEW}dlrun -- python3 t.py --lr ${{LR}}\n{end}\nsbatch job.sh\ndone\n")

    def test_what_the_job_computes_is_not_expanded_where_it_is_written(self):
        job = "#!/bin/bash\n#SBATCH --ntasks=2 --gpus-per-task=1\nsrun python t.py\n"
        script = of(f"cat > job.sh <<EOF\n{job}EOF\n", "#!/bin/bash\n").script
        plain = of(job.split("\n", 2)[2], "\n".join(job.split("\n")[:2]) + "\n").script
        done = bash(script + "cat job.sh\n", CUDA_VISIBLE_DEVICES="wrong", LOCAL_RANK="wrong")
        self.assertEqual(done.stdout, plain, done.stderr)


class Gpus(support.Case):
    def test_a_type_may_begin_with_a_digit(self):
        self.assertIn("--dl-learners=4 --dl-gpus=32g:1", of("srun python torch.py\n", "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2\n#SBATCH --gres=gpu:32g:2\n").script)

    def test_visible_devices_in_front_of_a_launch_go(self):
        result = of("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 a.py &\nA=1 CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node=2 b.py &\nwait\n", ONE_NODE)
        self.assertEqual(body_of(result), "dlrun --learners 2 -- python3 a.py &\nA=1 dlrun --learners 2 -- python3 b.py &\nwait\n")
        self.assertEqual((result.learners, result.gpus), ("4", 1))
        self.assertIn("CUDA_VISIBLE_DEVICES= dlrun", of("CUDA_VISIBLE_DEVICES= torchrun --nproc_per_node=2 t.py\n").script)

    def test_a_task_that_saw_one_gpu_still_does(self):
        head = "#!/bin/bash\n#SBATCH --ntasks=2 --gpus-per-task=1\n"
        code = body_of(of("srun python -u train.py a\n", head)).replace("python -u train.py", "sh -c 'echo $CUDA_VISIBLE_DEVICES,$LOCAL_RANK,$0,$1' x")
        for rank, gpu in (("0", "6"), ("1", "7")):
            done = bash(LEARNER + code, RANK_HERE=rank, CUDA_VISIBLE_DEVICES="6,7")
            self.assertEqual(done.stdout, f"{gpu},,x,a\n", code)

    def test_a_remark_chooses_no_gpu(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "t.py"), "w") as file:
                file.write("import torch\n# torch.cuda.set_device(args.local_rank)\nmodel.cuda()\n")
            self.assertIn("CUDA_VISIBLE_DEVICES", of("srun python t.py\n", "#!/bin/bash\n#SBATCH --ntasks=2 --gpus-per-task=1\n", folder).script)

    def test_a_program_that_chooses_by_its_rank_sees_all(self):
        head = "#!/bin/bash\n#SBATCH --ntasks=2 --gpus-per-task=1\n"
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "t.py"), "w") as file:
                file.write("import os, torch\ntorch.cuda.set_device(int(os.environ['SLURM_LOCALID']))\n")
            self.assertTrue(of("srun python t.py\n", head, folder).script.endswith("\ndlrun -- python t.py\n"))
        for other in ("#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-task=1\n", head.replace("=1\n", "=1 --gpu-bind=none\n")):
            self.assertTrue(of("srun python t.py\n", other).script.endswith("\ndlrun -- python t.py\n"), other)


class Tail(support.Case):
    """What stands behind the launch in the text of a node's shell."""

    def test_one_learner_of_each_node_runs_it(self):
        for quote, old in (('"', 'srun bash -c "cd . && torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=\\$h:1 t.py && python eval.py; echo rank \\$RANK"\n'),
                           ("'", "srun bash -c 'cd .\ntorchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$h:1 t.py\npython eval.py; echo rank $RANK'\n")):
            result = of(old)
            code = LEARNER + body_of(result).replace("python3 t.py", "sh -c 'exit $ENDS'" if quote == '"' else 'sh -c "exit $ENDS"').replace("python eval.py", "echo eval")
            self.assertEqual([note.text for note in result.notes if "once for each learner" in note.text], [], old)
            code = code.replace("exit $ENDS", "exit \\$ENDS")
            for rank, ends, said in (("0", "0", "eval\nrank\n"), ("1", "0", ""), ("0", "3", ""), ("1", "3", "")):
                done = bash(code, RANK_HERE=rank, ENDS=ends)
                self.assertEqual((done.stdout, done.returncode), (said, int(ends)), code + done.stderr)

    def test_what_is_not_that_simple_is_told(self):
        for code in ("for i in 1 2; do torchrun --nnodes=2 --nproc_per_node=4 t.py; python eval.py; done", "torchrun --nnodes=2 --nproc_per_node=4 t.py || bash mend.sh"):
            self.assertIn("once for each learner", str(of(f"srun bash -c '{code}'\n").notes), code)


class Words(support.Case):
    """Words in front of a launch, or of its program."""

    def test_commands_with_options_stay_in_front(self):
        for front in ("stdbuf -oL -eL", "nice -n 5", "ionice -c 2 -n 7", "time -p", "timeout -k 5 60"):
            self.assertEqual(body_of(of(f"{front} srun python torch.py\n")), f"{front} dlrun -- python torch.py\n")

    def test_env_in_front_of_the_program(self):
        result = of('exec srun env A="$B" "$V/bin/python" -m pkg.torch_train\n')
        self.assertEqual(body_of(result), 'exec dlrun -- env A="$B" "$V/bin/python" -m pkg.torch_train\n')
        self.assertEqual(body_of(of("srun env -u CUDA_VISIBLE_DEVICES python -m torch_train\n")), "dlrun -- env -u CUDA_VISIBLE_DEVICES python -m torch_train\n")
        self.assertEqual(of("srun env\nsrun env A=b hostname\ntorchrun --nproc_per_node=4 t.py\n").launches, 1)

    def test_a_text_that_only_removes_files_is_no_training(self):
        clean = "srun --ntasks=2 bash -c '\n  rm -rf /tmp/python_* || true\n  find /dev/shm -name \"torch_*\" -delete\n'\n"
        result = of(clean + "srun python torch.py\n")
        self.assertEqual(body_of(result), clean + "dlrun -- python torch.py\n")

    def test_settings_of_accelerate_stand_at_the_program(self):
        result = of('P="export A=1;"\nL="accelerate launch --num_processes=8 --use_deepspeed"\nC="./t.py"\nsrun bash -c "$P $L $C"\n')
        self.assertEqual(body_of(result), 'P="export A=1;"\nC="./t.py"\ndlrun -- bash -c "$P env ACCELERATE_USE_DEEPSPEED=true python3 $C"\n')

    def test_the_cpus_of_the_only_task_are_divided(self):
        self.assertIn("#SBATCH --cpus-per-task=12\n", of("torchrun --nproc_per_node=2 t.py\n", "#!/bin/bash\n#SBATCH --gres=gpu:2\n#SBATCH --cpus-per-task=24\n").script)

    def test_a_template_is_told_of_its_nodes_elsewhere(self):
        for nodes in ("{nodes}", "${NODES}", "@N@"):
            head = f"#!/bin/bash\n#SBATCH --nodes={nodes}\n#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:4\n"
            self.assertEqual(of("srun python torch.py\n", head).script, head + "dlrun --framework pytorch -- python torch.py\n")

    def test_a_launcher_with_a_path_keeps_its_interpreter(self):
        for name in ("T=/env/bin/torchrun\n", "export TORCHRUN='/env/bin/torchrun'\n"):
            result = of(name + f"${name.split('=')[0].split()[-1]} --nproc_per_node=4 t.py\n", ONE_NODE)
            self.assertIn("dlrun -- /env/bin/python3 t.py\n", result.script)
            self.assertEqual(result.notes, [])
        for path, python in (("/env/bin/torchrun", "/env/bin/python3"), ("$V/bin/accelerate launch", "$V/bin/python3"), ("./torchrun", "python3")):
            self.assertIn(f"dlrun -- {python} t.py\n", of(f"{path} {'--num_processes' if 'launch' in path else '--nproc_per_node'}=4 t.py\n", ONE_NODE).script, path)

    def test_a_branch_without_a_launcher_is_one_learner(self):
        for head, other in ((ONE_NODE, "dlrun --learners 1 --alone -- python t.py"), (ONE_NODE.replace("gpu:4", "gpu:1"), "dlrun --alone -- python t.py")):
            result = of("N=${SLURM_GPUS_ON_NODE:-1}\nif [ $N -gt 1 ]; then\n  torchrun --nproc_per_node=$N t.py\nelse\n  python t.py\nfi\n", head)
            self.assertIn(f"  dlrun -- python3 t.py\nelse\n  {other}\nfi\n", result.script)

    def test_a_package_beside_the_program_tells_the_framework(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("scripts/run.sh", ""), ("scripts/train.py", "import hydra\nfrom mine import go\n"), ("mine/__init__.py", ""), ("mine/go.py", "import torch\n")):
                os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
            self.assertEqual(of("srun python scripts/train.py\n", folder=os.path.join(folder, "scripts")).framework, "pytorch")


class Others(support.Case):
    """Programs that start the processes of a job themselves."""

    def test_deepy_hands_its_program_to_each_learner(self):
        result = of("python ./deepy.py train.py -d configs a.yml\n")
        self.assertEqual((result.learners, result.gpus, result.framework), ("8", 1, "pytorch"))
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "megatron"))
            for name, text in (("deepy.py", ""), ("train.py", "import sys\nprint(__name__, sys.argv)\n"), ("megatron/__init__.py", ""),
                               ("megatron/neox_arguments.py", "import sys\nclass NeoXArgs:\n  @classmethod\n  def consume_deepy_args(cls):\n    return cls()\n"
                                "  def get_deepspeed_main_args(self):\n    return ['--hostfile', 'h', sys.argv[1], '--config', ' '.join(sys.argv[2:])]\n")):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
            done = bash(LEARNER + f"cd {folder}\n" + body_of(result).replace("-- python ", f"-- {sys.executable} "), RANK_HERE="0")
        self.assertEqual(done.stdout, "__main__ ['train.py', '--config', '-d configs a.yml']\n", done.stderr)

    def test_hydras_launcher_of_torchrun_goes(self):
        result = of("python main.py -m hydra/launcher=torchrun +hydra.launcher.nnodes=2 hydra.launcher.nproc_per_node=4 hydra.launcher.rdzv_id=1 +ddp=True seed=1\n")
        self.assertEqual((body_of(result), result.learners), ("dlrun -- python main.py +ddp=True seed=1\n", "8"))

    def test_a_loop_of_tasks_that_are_told_their_node(self):
        body = ('for (( i=0; i < $SLURM_NTASKS; ++i ))\ndo\n  /opt/bin/srun -lN1 -N 1 -n 1 -r $i bash -c "python t.py --world_size 8 --node_rank ${i} --init tcp://$a:1" >> log_$i 2>&1 &\ndone\nwait\n')
        result = of(body)
        self.assertEqual(body_of(result), 'dlrun -- bash -c "python t.py --world_size 8 --node_rank \\$DL_NODE_RANK --init tcp://$a:1"  2>&1\n')
        self.assertEqual((result.learners, result.gpus), ("2", 4))

    def test_a_server_without_gpus_beside_the_training_stays(self):
        head = "#!/bin/bash\n#SBATCH --ntasks-per-node=8\n#SBATCH --gres=gpu:8\n"
        serve = "srun --gres=gpu:0 --mincpus 60 --ntasks=$SLURM_NNODES --ntasks-per-node=1 python serve-data.py &\n"
        result = of(serve + "mpirun -tag-output python horovod_main.py\n", head)
        self.assertEqual(result.script, head + serve + "dlrun --framework horovod -- python horovod_main.py\n")

    def test_nodes_that_sbatch_is_told_of(self):
        head = "#!/bin/bash\n#SBATCH --ntasks-per-node=1\n"
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "node.sh"), "w") as file:
                file.write("torchrun --nnodes $SLURM_NNODES --node-rank $SLURM_NODEID --nproc-per-node 8 t.py\n")
            self.assertEqual(of("srun node.sh\n", head, folder).script, head + "dlrun --framework pytorch -- ./node.sh\n")
            for path in ("/scratch/$SLURM_JOB_ID/work/node.sh", "/scratch/${USER}/node.sh"):
                self.assertIn("node.sh starts torchrun itself", str(of(f"srun bash {path}\n", head, folder).notes), path)

    def test_the_port_that_a_script_exports_is_the_one_that_is_used(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "t.py"), "w") as file:
                file.write("import torch, os\nos.environ['MASTER_PORT'] = '1'\n")
            result = of("export MASTER_ADDR=$(hostname)\nexport MASTER_PORT=$(shuf -i 1-9 -n 1)\nsrun python t.py\n", folder=folder)
        self.assertEqual(body_of(result), "export MASTER_PORT=$(shuf -i 1-9 -n 1)\ndlrun -- python t.py\n")


if __name__ == "__main__":
    support.main()
