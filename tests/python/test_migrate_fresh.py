# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: what scripts showed that it had not seen: names that mislead, numbers of sbatch, ranks of MPI."""
import os
import subprocess
import tempfile

import support
from test_migrate import body_of, of

NODE = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:2\n"


def with_files(body, head=NODE, **files):
    """The result for a script beside which these files lie; __ in a name stands for /."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = os.path.join(folder, name.replace("__", "/").replace("_py", ".py").replace("_sh", ".sh"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(content)
        return of(body, head, folder)


class Names(support.Case):
    def test_a_variable_with_a_program_is_no_interpreter_whatever_its_name(self):
        for name in ("TRAIN_PY", "PY", "MY_PYTHON"):
            result = of(f'{name}="./tools/go.py"\ntorchrun --nproc_per_node=2 "${{{name}}}" a\n', NODE)
            self.assertEqual(body_of(result).splitlines()[-1], f'dlrun -- python3 "${{{name}}}" a')
        # One with an interpreter is one, and so is one that the script does not set.
        for before in ("PY=/v/bin/python3\n", ""):
            result = of(before + "srun $PY train.py\n", NODE)
            self.assertEqual(body_of(result).splitlines()[-1], "dlrun --alone -- $PY train.py")


    def test_an_interpreter_in_an_array_or_under_another_name(self):
        for word in ('"${PY[@]}"', "$EXEC"):  # what another file sets
            result = of(f"{word} -m torch.distributed.run --nproc_per_node=2 \\\n  -m ours.train --lr 1\n", NODE)
            self.assertEqual((result.learners, body_of(result)), ("2", f"dlrun -- {word} -m ours.train --lr 1\n"))
        self.assertEqual(body_of(of('"${PY[@]}" train.py\n', NODE)), 'dlrun --alone -- "${PY[@]}" train.py\n')

    def test_the_settings_of_accelerate_lie_where_the_script_is_submitted(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "scripts"))
            with open(os.path.join(folder, "two.yaml"), "w") as file:
                file.write("num_processes: 2\nmixed_precision: bf16\n")
            result = of("accelerate launch --config_file two.yaml t.py\n", NODE.replace("gpu:2", "gpu:4"), os.path.join(folder, "scripts"))
        self.assertEqual((result.learners, result.gpus, body_of(result)), ("2", 2, "ACCELERATE_MIXED_PRECISION=bf16 dlrun -- python3 t.py\n"))

    def test_no_interpreter_lies_beside_what_pip_installs_for_a_user(self):
        self.assertEqual(body_of(of("/home/me/.local/bin/torchrun --nproc_per_node=2 t.py\n", NODE)), "dlrun -- python3 t.py\n")
        self.assertEqual(body_of(of("/venv/bin/torchrun --nproc_per_node=2 t.py\n", NODE)), "dlrun -- /venv/bin/python3 t.py\n")

    def test_a_word_that_ends_like_a_launcher_is_none(self):
        self.assertEqual(of("export RUN=gpt-no-torchrun\nsrun -n 2 python torch.py\n", NODE).notes, [])

    def test_a_module_that_another_branch_starts_without_a_launcher(self):
        result = of('if [ $SLURM_NNODES = 1 ]; then\n  python -m ours.train a\nelse\n  srun bash -c "\n    python -m ours.train $A"\nfi\n', NODE)
        self.assertEqual(body_of(result), 'if [ $SLURM_NNODES = 1 ]; then\n  dlrun --alone -- python -m ours.train a\nelse\n  dlrun --alone -- bash -c "\n    python -m ours.train $A"\nfi\n')

    def test_ray_that_starts_the_same_on_all_nodes(self):
        result = of('srun ray symmetric-run --address "$A" -- python -m ours.train\n', NODE)
        self.assertEqual((result.launches, "Ray starts and places" in str(result.notes)), (0, True))


class Snippet(support.Case):
    def test_one_that_looks_at_the_node_is_no_training(self):
        for before in ("", "apptainer exec --nv i.sif "):
            look = f"srun -n 1 {before}python -c 'import torch; print(torch.cuda.is_available(), torch.distributed.is_initialized())'\n"
            self.assertEqual(body_of(of(look + "srun -n 2 python torch.py\n", NODE)), look + "dlrun -- python torch.py\n")

    def test_one_that_trains_is_one(self):
        code = 'C="\nimport subprocess, sys\nsubprocess.run([sys.executable, \'src/train.py\'], check=True)\n"\n'
        for before in ("", "apptainer exec --nv i.sif "):
            self.assertEqual(body_of(of(f'{code}srun -n 2 {before}python -c "$C"\n', NODE)), f'{code}dlrun -- {before}python -c "$C"\n')
        text = 'import subprocess as s\ns.call(["python", "-m", "torch.distributed.run", "t.py"])'
        for body in (f"srun python -c '{text}'\n", f"C='{text}'\nsrun python -c \"$C\"\n", f"srun python - <<'E'\n{text}\nE\n"):
            result = of(body, NODE)
            self.assertEqual((result.learners, result.gpus, len(result.notes), "starts torchrun itself" in str(result.notes)), ("1", 2, 1, True), str(result.notes))
        self.assertEqual(of("srun -n 2 python -c 'import hvd; hvd.init(); model.fit(x)'\n", NODE).launches, 1)


class Unset(support.Case):
    def test_a_number_that_slurm_sets_only_if_it_is_asked_for(self):
        body = "export WORLD_SIZE=${SLURM_NTASKS_PER_NODE:-4}\naccelerate launch --num_processes $WORLD_SIZE t.py\n"
        head = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --gres=gpu:4\n"
        self.assertEqual((of(body, head).learners, of(body, head).gpus), ("4", 1))
        head = head.replace("ntasks=1", "ntasks-per-node=2")
        self.assertEqual((of(body, head).learners, of(body, head).gpus), ("2", 2))


class OneProcess(support.Case):
    """Scripts that start processes without a launcher: each training is dlrun's, and what comes before and after is not."""
    ONE = "#!/bin/bash\n#SBATCH --gres=gpu:1\n"

    def changed(self, body, head=ONE):
        """The lines in which dlrun stands."""
        result = of(body, head)
        return (result.learners, result.gpus), [line for line in body_of(result).splitlines() if "dlrun" in line]

    def test_what_trains_is_chosen_by_its_name_wherever_it_stands(self):
        for train in ("python train.py", "python -m ours.finetune", "python src/sft_model.py", "python run.py train", "python -u main.py --mode train"):
            for other in ("python evaluate.py", "python plot_training_log.py", "python prepare_train_data.py", "python run.py eval"):
                for body in (f"{other}\n{train} --lr 1\n", f"{train} --lr 1\n{other}\n"):
                    self.assertEqual(self.changed(body), (("1", 1), [f"dlrun --alone -- {train} --lr 1"]), body)
        # Where no name says it, the last one is it.
        self.assertEqual(self.changed("python a.py\npython b.py\n")[1], ["dlrun --alone -- python b.py"])

    def test_a_training_that_is_started_several_times(self):
        self.assertEqual(self.changed("python train.py --a\npython train.py --b\n"), (("1", 1), ["dlrun --alone -- python train.py --a", "dlrun --alone -- python train.py --b"]))
        self.assertEqual(self.changed("python go.py --a\npython b.py\npython go.py --b\n")[1], ["dlrun --alone -- python go.py --a", "dlrun --alone -- python go.py --b"])
        result = self.changed("CUDA_VISIBLE_DEVICES=0 python train.py --a &\nCUDA_VISIBLE_DEVICES=1 python train.py --b &\nwait\n", NODE)
        self.assertEqual(result, (("2", 1), ["dlrun --learners 1 --alone -- python train.py --a &", "dlrun --learners 1 --alone -- python train.py --b &"]))


    def test_nothing_but_a_training_is_taken_several_times(self):
        for other in ("python report.py", "python lineage.py record || true", "python predict.py"):
            self.assertEqual(len(self.changed(f"{other}\n{other}\n")[1]), 2 if "lineage" in other else 1)
        self.assertEqual(self.changed("python go.py\npython evaluate.py\npython plot.py\n")[1], ["dlrun --alone -- python go.py"])

    def test_jobs_beside_that_of_a_training_stay(self):
        job = "cat > {0}.sh << 'E'\n#!/bin/bash\n#SBATCH --gres=gpu:1\npython {0}.py\nE\nsbatch {0}.sh\n"
        result = of(job.format("split") + job.format("train") + job.format("evaluate"), "#!/bin/bash\n")
        self.assertEqual((result.launches, result.script.count("dl-learners"), result.notes), (1, 1, []))
        self.assertIn("dlrun --alone -- python train.py", result.script)
        self.assertIn("dlrun --alone -- python evaluate.py", of(job.format("evaluate"), "#!/bin/bash\n").script)


class OneNode(support.Case):
    def test_a_launcher_of_the_batch_script_has_the_gpus_of_its_node(self):
        head = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks=2\n#SBATCH --gres=gpu:3\n"
        for launch in ("deepspeed --no_local_rank t.py", "torchrun --nproc_per_node 3 t.py"):
            result = of(launch + "\n", head)
            self.assertEqual((result.learners, result.gpus), ("3", 1))
            self.assertIn("write --dl-learners=6", str(result.notes))
        for launch in ("srun torchrun --nnodes 2 --nproc_per_node 3 --rdzv_endpoint=$h:1 t.py", "torchrun --nnodes 2 --node_rank 0 --nproc_per_node 3 t.py"):
            result = of(launch + "\n", head)
            self.assertEqual((result.learners, result.gpus, result.notes), ("6", 1, []))


class Gpus(support.Case):
    def test_gpus_of_several_types(self):
        head = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=5\n#SBATCH --gres=gpu:a40-48:4,gpu:3090:1,tmpfs:1\n"
        result = of("srun python torch.py\n", head)
        self.assertEqual((result.learners, result.gpus), ("5", 1))
        self.assertIn("#SBATCH --dl-framework=pytorch --dl-learners=5 --dl-gpus=1\n#SBATCH --gres=tmpfs:1\n", result.script)
        self.assertIn("GPUs of several types (3090, a40-48)", str(result.notes))

    def test_a_branch_with_one_process_for_all_gpus(self):
        body = 'if [ "$1" = ddp ]; then\n  torchrun --nproc_per_node=2 main.py\nelse\n  python main.py\nfi\n'
        for program, expected in (("from torch.nn import DataParallel as DP\n", "dlrun --learners 1 --gpus 2 --alone -- python main.py"), ("m = nn.DataParallel(m)\n", "dlrun --learners 1 --gpus 2 --alone -- python main.py"),
                                  ("m = nn.parallel.DistributedDataParallel(m)\n", "dlrun --learners 1 --alone -- python main.py")):
            result = with_files(body, main_py="import torch.nn as nn\n" + program)
            self.assertEqual((result.learners, body_of(result).splitlines()[3].strip()), ("2", expected))

    def test_a_batch_script_that_is_written_in_pieces(self):
        result = of('S=$(mktemp)\ncat > $S <<A\n#!/bin/bash\n#SBATCH --gres=gpu:2\nA\ncat >> $S <<A\ntorchrun --nproc_per_node=2 t.py\nA\nsbatch $S\n', "#!/bin/bash\n")
        self.assertEqual((result.launches, "written in several pieces" in str(result.notes)), (0, True))


class Servers(support.Case):
    def test_one_that_has_gpus_of_the_job_beside_the_training(self):
        head = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gpus=4\n"
        for serve in ("CUDA_VISIBLE_DEVICES=0 apptainer exec i.sif trl vllm-serve --model m &", 'srun -N1 -n1 -w $V bash -lc "source a; trl vllm-serve --model m" &', "python -m sglang.launch_server &"):
            script = serve + "\nCUDA_VISIBLE_DEVICES=1,2 torchrun --nproc_per_node=2 t.py\n"
            result = of(script, head)
            self.assertEqual((result.launches, result.script), (0, head + script))
            self.assertEqual([note.line for note in result.notes if "this server runs on GPUs of the job" in note.text], [4])
        # All GPUs train, or what runs beside the training needs none.
        for before in ("vllm serve m &\ntorchrun --nproc_per_node=4 t.py\n", "tensorboard --logdir vllm/logs &\ntorchrun --nproc_per_node=2 t.py\n"):
            self.assertEqual(of(before, head).launches, 1)


class ToldToSbatch(support.Case):
    """The lines ask for something of each task or node, and the command line of sbatch for how many there are."""

    def test_a_file_that_the_shell_of_a_task_sources_speaks_of_them_too(self):
        ranks = "export RANK=$SLURM_PROCID\nexport WORLD_SIZE=$SLURM_NTASKS\n"
        for asked in ("--gpus-per-task=1", "--ntasks-per-node=4\n#SBATCH --gpus-per-node=4"):
            head = f"#!/bin/bash\n#SBATCH {asked}\n"
            result = with_files('srun shifter bash -c "\nsource ranks.sh\npython torch.py\n"\n', head, ranks_sh=ranks)
            self.assertTrue(result.script.startswith(head), result.script)
            self.assertIn("dlrun --framework pytorch -- shifter bash", result.script)
            self.assertIn("only where the job runs", str(result.notes))
            # Nothing speaks of several, or the lines say it.
            self.assertIn("--dl-learners=", with_files('srun bash -c "source ranks.sh; python torch.py"\n', head, ranks_sh="export A=1\n").script)
            self.assertIn("--dl-learners=", with_files('srun bash -c "source ranks.sh; python torch.py"\n', head + "#SBATCH --nodes=1\n", ranks_sh=ranks).script)


class Lightning(support.Case):
    HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus=8\n#SBATCH --cpus-per-task=16\n"
    PROGRAM = "import pytorch_lightning as pl\npl.Trainer(strategy=args.strategy, num_nodes=2)\n"

    def test_processes_that_it_starts_on_each_node_are_learners(self):
        for body in ("srun python train.py --strategy ddp\n", 'P=train.py\nA="--strategy ddp"\nsrun python $P ${A}\n'):
            result = with_files(body, self.HEAD, train_py=self.PROGRAM)
            self.assertEqual((result.learners, result.gpus), ("8", 1))
            self.assertIn("#SBATCH --cpus-per-task=4\n", result.script)
            self.assertIn("Lightning starts the processes", str(result.notes))
        # One process for each node is meant, or there is one for each GPU already.
        for body, program in (("srun python train.py --devices 1 --strategy ddp\n", self.PROGRAM), ("srun python train.py\n", self.PROGRAM),
                              ("srun python train.py --strategy ddp\n", "import torch\n")):
            self.assertEqual(with_files(body, self.HEAD, train_py=program).learners, "2")
        result = with_files("srun python train.py --strategy ddp\n", self.HEAD + "#SBATCH --ntasks-per-node=4\n", train_py=self.PROGRAM)
        self.assertEqual((result.learners, result.notes), ("8", []))


class RanksOfMpi(support.Case):
    SETUP = "from mpi4py import MPI\nimport torch.distributed as dist\ndef setup():\n    comm = MPI.COMM_WORLD\n    dist.init_process_group('nccl', rank=comm.rank)\n"

    def test_a_module_that_takes_its_rank_from_mpi_needs_mpi(self):
        for launch in ("mpirun -n 2", "srun -n 2"):
            for files in ({"train_py": self.SETUP}, {"train_py": "import torch\nfrom ours import ranks\n", "ours__ranks_py": self.SETUP}):
                result = with_files(f"{launch} python train.py\n", **files)
                self.assertEqual(result.framework, "mpi", files)
            for_itself = "import torch\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Allreduce(a, b)\n"
            self.assertEqual(with_files(f"{launch} python train.py\n", train_py="import torch\nimport ours\n", ours_py=for_itself).framework, "mpi" if launch[0] == "m" else "pytorch")
            # Some programs use MPI for other things, or only if it is there.
            for other in ("import torch\nfrom mpi4py import MPI\nprint(MPI.Get_library_version())\n", "import torch\ntry:\n    from mpi4py import MPI\nexcept ImportError:\n    MPI = None\n"):
                self.assertEqual(with_files(f"{launch} python train.py\n", train_py=other).framework, "pytorch")


class NamesOfMpi(support.Case):
    def test_a_script_that_mpirun_starts_finds_its_rank_by_the_names_of_mpi(self):
        launcher = "node=$PMI_RANK\nL='torchrun '\nL+='--nnodes=2 --node_rank=$node '\neval \"$L t.py\"\n"
        head = "#!/bin/bash\n#SBATCH -N 2 -n 2\n"
        result = with_files("mpiexec.hydra -np 2 -ppn 1 ./run_sh a\n".replace("run_sh", "run.sh"), head, run_sh=launcher)
        self.assertEqual((result.learners, result.framework), ("2", "pytorch"))
        self.assertEqual(body_of(result), "dlrun -- bash -c 'export PMI_RANK=$RANK; exec \"$@\"' learner ./run.sh a\n")
        self.assertIn("run.sh starts torchrun itself, once on each node as before", str(result.notes))
        for program, names in (("import torch\nr = os.environ['OMPI_COMM_WORLD_RANK']\n", "OMPI_COMM_WORLD_RANK=$RANK"), ("import torch\n", ""),
                               ("import torch\nr, l = env('PMI_SIZE'), env('MPI_LOCALRANKID')\n", "PMI_SIZE=$WORLD_SIZE MPI_LOCALRANKID=$LOCAL_RANK")):
            body = body_of(with_files("mpirun -n 2 python train.py\n", train_py=program))
            self.assertEqual(body, "dlrun -- " + (f"bash -c 'export {names}; exec \"$@\"' learner " if names else "") + "python train.py\n")


class Asked(support.Case):
    def test_gpus_that_only_sbatch_is_told_of_stay_so(self):
        head = "#!/bin/bash\n#SBATCH --time=60\n#SBATCH --cpus-per-gpu=8\n"
        result = of("accelerate launch --num_processes 8 t.py\n", head)
        self.assertEqual((result.script, result.learners), (head + "dlrun --framework pytorch --learners 8 -- python3 t.py\n", "8"))
        self.assertIn("for no GPUs, which sbatch is told elsewhere", str(result.notes))


class Images(support.Case):
    """srun --container-image of pyxis, with an image of a registry."""
    # In the place of apptainer and dlrun: what is pulled, and what learners would be told.
    STANDINS = ('apptainer() { [ "$1 $2" = "pull --force" ] && echo "pull $4"; echo part >"$3"; }\n'
                'sbatch() { bash -c "$(cat)"; }\nsrun() { echo "srun $*"; }\n'
                'dlrun() { [ "$1" = --alone ] && shift; [ -e "$2" ] && echo "${2##*/} binds $APPTAINER_BIND"; shift 3; "$@"; }\npython() { echo "python $* in $PWD"; }\nexport -f python apptainer dlrun\n')

    def run_twice(self, body, head=NODE):
        result = of(body, head)
        with tempfile.TemporaryDirectory() as folder:
            done = [subprocess.run(["bash", "-c", self.STANDINS + body_of(result)], capture_output=True, text=True, cwd="/", env={"PATH": os.environ["PATH"], "HOME": folder})
                    for _ in range(2)]
        self.assertEqual([one.stderr for one in done], ["", ""])
        return result, done[0].stdout.splitlines(), done[1].stdout.splitlines()

    def test_one_of_a_registry_is_pulled_once_and_run_by_dlrun(self):
        file = "nvcr.io_nvidia_pytorch_24.01-py3.sif"
        for before, image in (("", "nvcr.io#nvidia/pytorch:24.01-py3"), ("", "docker://nvcr.io/nvidia/pytorch:24.01-py3"), ("I=nvcr.io#nvidia/pytorch:24.01-py3\n", "$I"),
                              ('T=24.01-py3\nI="${I:-docker://nvcr.io#nvidia/pytorch:$T}"\n', '"${I}"'), ("T=24.01-py3\n", '"nvcr.io/nvidia/pytorch:$T"'),
                              ("T=24.01-py3\n", 'nvcr.io#nvidia/pytorch:"$T"'), ("T=24.01-py3\n", '"nvcr.io#nvidia/pytorch":$T'), ("", 'nvcr.io#"nvidia/pytorch:24.01-py3"')):
            result, first, second = self.run_twice(f"{before}srun -n 2 --container-image={image} --container-mounts=/a:/b,/c python torch.py\n")
            self.assertEqual(first, ["pull docker://nvcr.io/nvidia/pytorch:24.01-py3", file + " binds /a:/b,/c", "python torch.py in /"], result.script)
            self.assertEqual(second, first[1:])
            self.assertEqual((result.learners, result.gpus), ("2", 1))
            self.assertIn("is run by Apptainer", str(result.notes))
            self.assertIn("pyxis and enroot, but no Apptainer, keep the script", str(result.notes))

    def test_a_variable_that_the_script_does_not_set_may_hold_a_file(self):
        result = of('srun -n 2 --container-image="$IMAGE" python torch.py\n', NODE)
        self.assertEqual((result.learners, result.gpus), ("2", 1))
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "there.sqsh")
            with open(file, "w"):
                pass
            for image, said in ((file, ["there.sqsh binds ", "python torch.py in /"]), ("docker://a/b:1", ["pull docker://a/b:1", "a_b_1.sif binds ", "python torch.py in /"])):
                done = subprocess.run(["bash", "-c", self.STANDINS + body_of(result)], capture_output=True, text=True, cwd="/", env={"PATH": os.environ["PATH"], "HOME": folder, "IMAGE": image})
                self.assertEqual((done.stdout.splitlines(), done.stderr), (said, ""), result.script)

    def test_a_pull_that_is_interrupted_is_begun_again(self):
        result = of("srun -n 2 --container-image=a/b:1 python torch.py\n", NODE)
        broken = 'apptainer() { echo part >"$3"; kill -9 $$; }\n'
        with tempfile.TemporaryDirectory() as folder:
            done = [subprocess.run(["bash", "-c", standins + body_of(result)], capture_output=True, text=True, cwd="/", env={"PATH": os.environ["PATH"], "HOME": folder, "SLURM_JOB_ID": "7"})
                    for standins in (self.STANDINS + broken, self.STANDINS)]
            self.assertEqual(os.listdir(os.path.join(folder, ".apptainer")), ["a_b_1.sif"])
        self.assertEqual([one.stdout.splitlines()[:1] for one in done], [[], ["pull docker://a/b:1"]])

    def test_in_a_batch_script_that_the_script_writes(self):
        job = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:2\nsrun -n 2 --container-image=%s --container-workdir=/tmp bash -c 'python torch.py'\n"
        for mark, before, image in (("END", "", "a/b:1"), ("'END'", "", "a/b:1"), ("END", "T=1\n", "a/b:$T"), ("'END'", "", "a/b:\"${T:-1}\"")):
            result, first, second = self.run_twice(f"{before}sbatch <<{mark}\n{job % image}END\n", "#!/bin/bash\n")
            self.assertEqual(first, ["pull docker://a/b:1", "a_b_1.sif binds ", "python torch.py in /tmp"], result.script)
            self.assertEqual(second, first[1:])
        for quote in "'\"":  # it cannot hold the lines, or the marks of its own kind
            result = of(f"sbatch --nodes=1 --gres=gpu:2 --wrap={quote}srun -n 2 --container-image=a/b:1 python torch.py{quote}\n", "#!/bin/bash\n")
            self.assertEqual((result.launches, "is pulled once" in str(result.notes)), ((1, True) if quote == "'" else (0, False)))

    def test_its_folder_and_what_is_installed_in_it(self):
        result, first, _ = self.run_twice("srun --container-image=a/b:1 --container-workdir=/tmp bash -c 'python torch.py'\n")
        self.assertEqual(first[-1], "python torch.py in /tmp", result.script)
        result = of("srun --container-image=a/b:1 bash -c 'pip install x; python torch.py'\n", NODE)
        self.assertIn("\nAPPTAINER_WRITABLE_TMPFS=1 dlrun --alone --image", result.script)

    def test_launchers_within_it(self):
        result = of('srun --container-image=a/b:1 bash -c "torchrun --nnodes=1 --nproc_per_node=2 t.py"\n', NODE)
        self.assertEqual((result.learners, body_of(result).splitlines()[-1]), ("2", 'dlrun --image "$dl_image" -- bash -c "python3 t.py"'))

    def test_where_lines_cannot_stand_in_front_it_stays(self):
        for body in ("if true; then\n  :\nelif srun --container-image=a/b:1 python torch.py; then\n  :\nfi\n", "cd x; srun --container-image=a/b:1 python torch.py\n",
                     "cd x &&\nsrun --container-image=a/b:1 python torch.py\n", "cat x |\n  srun --container-image=a/b:1 python torch.py\n",
                     'eval "srun --container-image=\\"a/b:1\\" python torch.py"\n'):
            self.assertIn("stays with srun", str(of(body, NODE).notes))
        for body in ("if srun --container-image=a/b:1 python torch.py; then\n  :\nfi\n", "A=1 \\\n  srun --container-image=a/b:1 python torch.py\n"):
            self.assertEqual(self.run_twice(body)[1][0], "pull docker://a/b:1")
        result = of("I=a/b:1\nsrun --container-image=$I python torch.py\n", NODE.replace("bash", "sh"))
        self.assertEqual(result.launches, 0)

    def test_one_in_the_text_of_a_shell_is_not_lost(self):
        for image in ("a/b:1", "/i.sqsh"):
            for front in ("", "srun -n 1 "):
                body = f'{front}bash -c "\n  srun -n 2 --container-image={image} python torch.py\n"\n'
                result = of(body, NODE)
                self.assertEqual((result.launches, result.script), (0, NODE + body))
                self.assertIn("stays with srun", str(result.notes))

    def test_mounts_of_a_file(self):
        result = of('srun --container-image=/i.sqsh --container-mounts="/a:/b:ro,$HOME" python torch.py\n', NODE)
        self.assertEqual(body_of(result), 'APPTAINER_BIND="/a:/b:ro,$HOME" dlrun --alone --image /i.sqsh -- python torch.py\n')
        self.assertIn("dl.toml(5)", str(of("srun --container-image=/i.sqsh --container-mounts=/a:/b:x-create=dir python torch.py\n", NODE).notes))


class Text(support.Case):
    def test_a_variable_named_like_torchrun_with_a_whole_launch(self):
        result = of('TORCHRUN_CMD="\\\ntorchrun --nproc_per_node=2 \\\n  t.py $A"\nsrun bash -c "${TORCHRUN_CMD}"\n', NODE)
        self.assertEqual((result.learners, body_of(result)), ("2", 'TORCHRUN_CMD="\\\npython3 t.py $A"\ndlrun -- bash -c "${TORCHRUN_CMD}"\n'))

    def test_a_variable_that_holds_the_program_in_the_text_of_a_shell(self):
        for value in ("python go.py --a", "export A=b && cd /d && python -m ours.go"):
            result = of(f'launch="{value}"\nsrun -n 2 bash -c "\n  cd /d\n  $launch\n"\n', NODE)
            self.assertEqual((result.learners, body_of(result)), ("2", f'launch="{value}"\ndlrun -- bash -c "\n  cd /d\n  $launch\n"\n'))
        self.assertEqual(of('show="cat x"\nsrun bash -c "$show"\n', NODE).launches, 0)


if __name__ == "__main__":
    support.main()
