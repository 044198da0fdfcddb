# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: batch scripts of other launchers, in the shapes in which people write them, and FfDL's manifests."""
import json
import os
import resource
import subprocess
import sys
import tempfile

import support

sys.path.insert(0, os.path.join(support.SOURCE, "launcher", "python"))
from dl.migrate import manifest  # noqa: E402
from dl.migrate.rewrite import migrate  # noqa: E402

HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n"


def of(body, head=HEAD, folder=None):
    """Of a script in `folder`: by default an empty one, below others, since files are looked for above it, too. Where tests run, other tests
    write and remove theirs meanwhile."""
    if folder is not None:
        return migrate(head + body, folder)
    with tempfile.TemporaryDirectory() as empty:
        folder = os.path.join(empty, "jobs", "slurm", "scripts")
        os.makedirs(folder)
        return migrate(head + body, folder)


def body_of(result, head_lines=1):
    """What stands behind the #SBATCH lines."""
    return "".join(line for line in result.script.splitlines(True) if not line.startswith(("#SBATCH", "#!")))


# In the place of dlrun: runs the command as learner 3 would, and its program is a python that prints its arguments.
STANDINS = """dlrun() { [ "$1" = -- ] && shift; LOCAL_RANK=3 "$@"; }
python() { printf '<%s>' "$@"; }
python3() { python "$@"; }
bash() { if [ "$1" = -c ]; then shift; local code=$1; shift 2; eval "${code/exec /}"; else command bash "$@"; fi; }
"""


class Eval(support.Case):
    """A launch behind eval: what is written is read twice by the shell."""

    def test_the_program_gets_its_words(self):
        for body, expected in (
                ('CMD="torchrun --nproc_per_node=4 t.py --lr 0.1"\neval $CMD', "<t.py><--lr><0.1>"),
                ('L="torchrun --nproc_per_node 4"\neval "$L t.py --name \\"two words\\" > /dev/stdout 2>&1"', "<t.py><--name><two words>"),
                ("eval 'torchrun --nproc_per_node 4 t.py a'", "<t.py><a>"),
                ('CMD="python -m torch.distributed.launch --nproc_per_node=4 t.py --lr 1"\neval $CMD', "<t.py><--lr><1><--local_rank=3>"),
                ('eval "python -m torch.distributed.launch --nproc_per_node=4 t.py --lr 1"', "<t.py><--lr><1><--local_rank=3>"),
                ("eval 'python -m torch.distributed.launch --nproc_per_node=4 t.py --lr 1'", "<t.py><--lr><1><--local_rank=3>"),
                ('cd . && eval exec torchrun --nproc_per_node 4 t.py b || exit 1', "<t.py><b>")):
            result = of(body + "\n")
            code = body_of(result).replace("exec ", "")  # the stand-ins are functions
            done = subprocess.run(["bash", "-c", STANDINS + code], capture_output=True, text=True)
            self.assertEqual(result.learners, "4", body)
            self.assertEqual((done.stdout, done.stderr), (expected, ""), result.script)


class Launches(support.Case):
    """(what stands in the script, what becomes of it, learners)"""

    def test_each_launcher_becomes_dlrun(self):
        for line, expected, learners in (
                ("srun torchrun --nnodes=$SLURM_NNODES --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$h:29500 train.py --lr 1",
                 "dlrun -- python3 train.py --lr 1", "8"),
                ("torchrun --standalone --nproc-per-node gpu -m pkg.train a", "dlrun -- python3 -m pkg.train a", "4"),
                ("torchrun --no-python --nproc_per_node 2 ./prog x", "dlrun -- ./prog x", "2"),
                ("torchrun --nnodes 1:2 --nproc_per_node 4 t.py", "dlrun -- python3 t.py", "4:8"),
                ("python -u -m torch.distributed.run --nproc_per_node=4 t.py", "dlrun -- python -u t.py", "4"),
                ("python -m torch.distributed.launch --nproc_per_node=4 --use_env t.py", "dlrun -- python t.py", "4"),
                ("$PYTHON -m torch.distributed.run --nproc_per_node=4 t.py", "dlrun -- $PYTHON t.py", "4"),
                ("srun python3 train.py --a b", "dlrun -- python3 train.py --a b", "2"),
                ("srun -n4 -lu --cpu-bind=none --mpi=pmix python3 train.py", "dlrun --learners 4 -- python3 train.py", None),
                ("mpirun -np 8 --bind-to none -x LD_LIBRARY_PATH -mca pml ob1 -x A=b python t.py", "OMPI_MCA_pml=ob1 A=b dlrun -- python t.py", "8"),
                ("mpiexec -n $SLURM_NTASKS -ppn 1 ./a.out in", "dlrun -- ./a.out in", "2"),
                ("horovodrun -np 8 -H a:4,b:4 --timeline-filename t.json python t.py", "HOROVOD_TIMELINE=t.json dlrun -- python t.py", "8"),
                ("accelerate launch --multi_gpu --num_processes 8 --mixed_precision bf16 t.py -x", "ACCELERATE_MIXED_PRECISION=bf16 dlrun -- python3 t.py -x", "8"),
                ("accelerate launch t.py", "dlrun -- python3 t.py", "8"),
                ("deepspeed --num_gpus 4 --no_local_rank t.py --deepspeed", "dlrun -- python3 t.py --deepspeed", "4"),
                ("deepspeed --include localhost:0,2 --no_local_rank t.py", "dlrun -- python3 t.py", "2"),
                ("time srun --kill-on-bad-exit=1 python t.py 2>&1 | tee log", "time dlrun -- python t.py 2>&1 | tee log", "2"),
                ("exec srun python t.py", "exec dlrun -- python t.py", "2"),
                ("srun singularity exec --nv $IMG torchrun --nproc_per_node 4 --nnodes 2 t.py", "dlrun -- singularity exec --nv $IMG python3 t.py", "8"),
                ("apptainer exec --nv i.sif torchrun --nproc_per_node 4 t.py", "dlrun -- apptainer exec --nv i.sif python3 t.py", "4"),
                ("srun run.sh a", "dlrun -- ./run.sh a", "2"),
                ("srun -N 8 torchrun --nproc_per_node 8 --rdzv_endpoint h:1 t.py", "dlrun -- python3 t.py", "64"),
                ("srun -N 8 torchrun --nproc_per_node 8 --rdzv_endpoint localhost:0 t.py", "dlrun -- python3 t.py", "8"),
                ("srun numactl --localalloc python t.py", "dlrun -- numactl --localalloc python t.py", "2"),
                ("srun --export=ALL,NCCL_DEBUG=INFO python t.py", "NCCL_DEBUG=INFO dlrun -- python t.py", "2"),
                ("srun --container-image=/img/x.sqsh python t.py", "dlrun --image /img/x.sqsh -- python t.py", "2")):
            result = of(line + "\n") if learners else of("srun torchrun --nnodes 2 --nproc_per_node 4 first.py\n" + line + "\n")
            self.assertEqual(body_of(result).splitlines()[-1], expected, line)
            if learners:
                self.assertEqual(result.learners, learners, line)

    def test_a_local_rank_that_the_launcher_would_have_passed_is_passed(self):
        for line in ("python -m torch.distributed.launch --nproc_per_node=4 t.py -x", "deepspeed --num_gpus=4 t.py -x"):
            self.assertIn("dlrun -- bash -c 'exec \"$@\" --local_rank=$LOCAL_RANK' learner python", of(line + "\n").script)

    def test_within_a_text_of_a_shell_the_local_rank_stands_behind_the_program(self):
        launch = "python -m torch.distributed.launch --nproc_per_node=4 t.py -x"
        for quote, rank in (("'", "$LOCAL_RANK"), ('"', "\\$LOCAL_RANK")):
            script = of(f"srun bash -c {quote}cd /d; {launch}{quote}\n").script
            self.assertIn(f"dlrun -- bash -c {quote}cd /d; python t.py --local_rank={rank} -x{quote}\n", script)
            self.bash_reads(script)
        # Within a variable's value, and in front of words that stay, it is the shell of the learner that says it.
        wrapped = "dlrun -- bash -c 'exec \"$@\" --local_rank=$LOCAL_RANK' learner "
        self.assertIn(f'C="python t.py -x"\n{wrapped}$C\n', of(f'C="{launch}"\n$C\n').script)
        self.assertIn(f'C=(python t.py -x)\n{wrapped}"${{C[@]}}"\n', of(f'C=({launch})\n"${{C[@]}}"\n').script)
        self.assertIn(f"{wrapped}singularity exec i.sif python t.py -x\n", of(f"srun singularity exec i.sif {launch}\n").script)

    def bash_reads(self, script):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)

    def test_what_bash_would_expand_it_still_expands(self):
        for option, expected in (
                ("-x 'A=b c'", "A='b c'"), ("-x A=$(nproc)", "A=$(nproc)"), ('-x "A=$HOME/x y"', 'A="$HOME/x y"'), ("-x A=`hostname -s`", "A=`hostname -s`"),
                ("-x A=$((2 * 3))", "A=$((2 * 3))"), ("--mca btl_x $(hostname -s)", "OMPI_MCA_btl_x=$(hostname -s)"), ("--mca 'btl_x=a b'", "OMPI_MCA_btl_x='a b'"), ("-x A=$HOME/x", "A=$HOME/x"), ('-x A="$HOME/x y"', 'A="$HOME/x y"'),
                ("-x A='$HOME'", "A='$HOME'"), ("-x 'A=it; b'", "A='it; b'"), ('-x A="$(cat "x y")"', 'A="$(cat "x y")"')):
            script = of(f"mpirun -np 2 {option} python t.py\n").script
            self.assertIn(f"\n{expected} dlrun -- python t.py\n", script, option)
            self.bash_reads(script)
        for option, expected in (("--export=ALL,A=$HOME/x", "A=$HOME/x"), ("--export='ALL,A=b c,D=e'", "A='b c' D=e"), ('--export="ALL,A=$X y"', 'A="$X y"')):
            self.assertIn(f"\n{expected} dlrun -- python t.py\n", of(f"srun {option} python t.py\n").script, option)

    def test_words_in_variables_arrays_and_quotes_are_found(self):
        string = 'L="torchrun --nnodes $SLURM_NNODES \\\n  --nproc_per_node 4 \\\n  "\nC="train.py --lr 1"\nsrun $L $C\n'
        self.assertEqual(body_of(of(string)), 'C="train.py --lr 1"\ndlrun -- python3 $C\n')
        array = 'A=(\n  --nproc_per_node 4  # one a GPU\n  --nnodes=2\n)\ntorchrun "${A[@]}" t.py "${B[@]}"\n'
        self.assertEqual(body_of(of(array)), 'dlrun -- python3 t.py "${B[@]}"\n')
        chained = 'export L="accelerate launch --num_processes 8"\nexport CMD="$L t.py --x"\nsrun $CMD\n'
        self.assertEqual(body_of(of(chained)), 'export CMD="python3 t.py --x"\ndlrun -- $CMD\n')
        quoted = 'L="python -u -m torch.distributed.run --nproc_per_node 4 --nnodes 2"\nsrun --jobid 1 bash -c "$L --node_rank \\$SLURM_PROCID t.py" | tee x\n'
        self.assertEqual(body_of(of(quoted)), 'dlrun -- bash -c "python -u t.py" | tee x\n')
        self.assertEqual(of(quoted).learners, "8")

    def test_what_tells_ranks_where_to_meet_goes_from_the_text_of_a_shell(self):
        body = "srun bash -c '\n  export RANK=$SLURM_PROCID MASTER_PORT=1\n  A=1 MASTER_ADDR='\"$M\"'\n  python3 t.py\n'\n"
        self.assertEqual(body_of(of(body)), "dlrun -- bash -c '\n  A=1 \n  python3 t.py\n'\n")
        result = of("srun bash -c 'export MASTER_ADDR=x; python3 t.py tcp://$MASTER_ADDR'\n")
        self.assertIn("MASTER_PORT=29500 dlrun -- bash -c 'export MASTER_ADDR=x; python3", result.script)

    def test_a_variable_that_is_used_elsewhere_stays_defined(self):
        result = of('L="torchrun --nproc_per_node 4"\necho $L\n$L t.py\n')
        self.assertEqual(body_of(result), 'L=""\necho $L\ndlrun -- python3 t.py\n')

    def test_numbers_are_computed_as_bash_would(self):
        for expression in ("$((SLURM_NNODES * 4))", "$(($SLURM_NNODES*$G))", "$(expr $SLURM_NNODES \\* 4)", "${N:-8}", "$X", "$[ 2 * 4 ]",
                           "$((${#hosts[@]} * 4))"):
            result = of(f"G=4\nX=$((G + 4))\nhosts=($(scontrol show hostnames $SLURM_JOB_NODELIST))\naccelerate launch --num_processes {expression} t.py\n")
            self.assertEqual(result.learners, "8", expression)
            self.assertEqual(result.notes, [], expression)

    def test_what_is_no_training_is_left_alone(self):
        body = ('head=$(srun -N1 -n1 hostname)\nsrun hostname\nsrun nvidia-smi\nsrun mkdir -p /tmp/x\nsrun python -c "import torch"\n'
                "cat <<EOF\nsrun torchrun other.py\nEOF\n# torchrun third.py\necho torchrun fourth.py\n")
        result = of(body + "srun python t.py\n")
        self.assertEqual(body_of(result), body + "dlrun -- python t.py\n")
        self.assertEqual(result.launches, 1)

    def test_several_launches_and_those_at_once(self):
        result = of("srun python a.py\nsrun -n 1 python b.py\n")
        self.assertEqual(body_of(result), "dlrun -- python a.py\ndlrun --learners 1 --alone -- python b.py\n")
        result = of("for i in 1 2; do\n  srun -n1 --exact python a.py $i &\ndone\nwait\n", "#!/bin/bash\n#SBATCH -n 2 --gpus=2\n")
        self.assertIn("  dlrun --learners 1 --alone -- python a.py $i &\n", result.script)
        self.assertIn("#SBATCH --dl-learners=2 --dl-gpus=1\n", result.script)

    def test_one_python_without_a_launcher_is_one_learner(self):
        result = of("python prepare.py\npython train.py --x\n", "#!/bin/bash\n#SBATCH --gres=gpu:2\n")
        self.assertEqual(body_of(result), "python prepare.py\ndlrun --alone -- python train.py --x\n")
        self.assertEqual((result.learners, result.gpus), ("1", 2))
        self.assertEqual(of("make all\n").launches, 0)

    def test_lines_for_the_meeting_of_ranks_go_unless_the_script_needs_them(self):
        body = "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)\nexport MASTER_PORT=29500 # free?\nexport WORLD_SIZE=8\n"
        self.assertEqual(body_of(of(body + "srun python t.py\n")), "dlrun -- python t.py\n")
        self.assertEqual(body_of(of("MASTER_ADDR=$(hostname)\nexport MASTER_ADDR\nsrun python t.py\n")), "dlrun -- python t.py\n")
        result = of(body + "srun python t.py --url tcp://$MASTER_ADDR:1\n")
        self.assertIn("export MASTER_ADDR=", result.script)
        self.assertIn("learners meet there", str(result))
        result = of("MASTER_ADDR=$(hostname)\necho $MASTER_ADDR\nsrun torchrun --nproc_per_node 4 t.py\n")
        self.assertIn("MASTER_ADDR=$(hostname)", result.script)
        self.assertNotIn("learners meet there", str(result))  # no learner finds what is not exported
        self.assertNotIn("MASTER_PORT", result.script)


class Directives(support.Case):
    def flags(self, head, body="srun python t.py\n"):
        return [line[8:] for line in migrate("#!/bin/bash\n" + head + body).script.splitlines() if line.startswith("#SBATCH")]

    def test_what_the_flags_say_is_said_once(self):
        self.assertEqual(self.flags("#SBATCH -N 2 -n 8 --gres=gpu:a100:4,lscratch:9 -p gpu -t 10 # comment\n"),
                         ["--dl-learners=8 --dl-gpus=a100:1", "-N 2 --gres=lscratch:9 -p gpu -t 10 # comment"])
        self.assertEqual(self.flags("#SBATCH --ntasks 4\n#SBATCH --gpus-per-task=2\n#SBATCH --mem=9G\n"), ["--dl-learners=4 --dl-gpus=2", "--mem=9G"])
        self.assertEqual(self.flags("#SBATCH -J x\n", "torchrun --nproc_per_node 2 --max_restarts=3 t.py\n"),
                         ["-J x", "--dl-framework=pytorch --dl-learners=2 --dl-restarts=3"])

    def test_remarks_of_sbatch_lines_stay_and_are_no_options(self):
        result = of("srun python t.py\n", "#!/bin/bash\n#SBATCH --nodes=2 --time=10   # as long as it takes\n#SBATCH --comment=\"run #3\" --gpus=2 # mine\n")
        self.assertIn("#SBATCH --nodes=2 --time=10   # as long as it takes\n", result.script)
        self.assertIn("#SBATCH --comment=\"run #3\" # mine\n", result.script)
        self.assertEqual((result.learners, result.gpus), ("2", 1))

    def test_only_line_feeds_end_lines(self):
        head = "#!/bin/bash\n#SBATCH --job-name=a\x0cb --ntasks=4\n#SBATCH --comment=\u2028x\n#SBATCH --gpus=4\n"
        result = of("srun python t.py\n", head)
        self.assertEqual((result.learners, result.gpus), ("4", 1))
        self.assertIn("#SBATCH --job-name=a\x0cb\n#SBATCH --comment=\u2028x\n", result.script)

    def test_the_cpus_of_one_launcher_are_shared_by_its_processes(self):
        self.assertIn("--cpus-per-task=8", self.flags("#SBATCH -N1 --ntasks-per-node=1\n#SBATCH --cpus-per-task=32 \n#SBATCH -G 4\n",
                                                      "torchrun --nproc_per_node=4 t.py\n"))
        self.assertIn("-c 2", self.flags("#SBATCH -N 2\n#SBATCH -c 2\n", "mpirun -n 8 python t.py\n"))
        self.assertIn("-c 4", self.flags("#SBATCH -n 4 \n#SBATCH -c 4\n"))

    def test_tasks_per_node_stay_where_the_script_reads_them(self):
        flags = self.flags("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n", "export W=$((SLURM_NNODES * SLURM_NTASKS_PER_NODE))\nsrun python t.py\n")
        self.assertIn("--ntasks-per-node=4", flags)

    def test_a_script_that_srun_gave_its_nodes_gets_lines_of_its_own(self):
        result = migrate("P=long\nsrun -p $P -N 2 -n 8 --gres=gpu:4 -t 10 python t.py\n")
        self.assertIn("#SBATCH --partition=long\n", result.script)
        self.assertTrue(result.script.startswith("#!/bin/bash\n#SBATCH "))
        self.assertEqual(migrate("torchrun --nproc_per_node 4 t.py\n").script,
                         "#!/bin/bash\n#SBATCH --dl-framework=pytorch --dl-learners=4 --dl-gpus=1\ndlrun -- python3 t.py\n")
        self.assertIn("#SBATCH --nodes=2\n", result.script)
        self.assertTrue(result.notes)

    def test_memory_and_cpus_of_gpus_are_said_without_them(self):
        flags = self.flags("#SBATCH --nodes=1\n#SBATCH --gres=gpu:8\n#SBATCH --cpus-per-gpu=4\n#SBATCH --mem-per-gpu=20G\n", "torchrun --nproc_per_node=8 t.py\n")
        self.assertEqual(flags[-2:], ["--cpus-per-task=4", "--mem=160G"])

    def test_a_heterogeneous_job_is_left_as_it_is(self):
        text = "#!/bin/bash\n#SBATCH -n 1\n#SBATCH hetjob\n#SBATCH -n 2\nsrun python t.py\n"
        self.assertEqual(migrate(text).script, text)
        self.assertTrue(migrate(text).notes)


class Remarks(support.Case):
    def test_what_is_not_understood_is_said_with_its_line(self):
        result = of("srun --newoption=3 --output=%t.log python torch.py\n")
        self.assertEqual([note.line for note in result.notes], [5, 5])
        self.assertIn("'--newoption=3' of srun is not known here", " ".join(note.text for note in result.notes))
        result = of("srun bash run.sh\n")
        self.assertIn("what 'bash' starts is not looked into", result.notes[0].text)
        self.assertIn("cannot be read here", of("accelerate launch --config_file none.yaml --num_processes 8 t.py\n").notes[0].text)

    def test_a_file_of_accelerate_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "a.yaml"), "w") as file:
                file.write("num_processes: 8\nmixed_precision: fp16\ndistributed_type: FSDP\nfsdp_config:\n  fsdp_offload_params: false\n")
            result = of("accelerate launch --config_file a.yaml t.py\n", folder=folder)
        self.assertEqual(result.learners, "8")
        self.assertIn("ACCELERATE_MIXED_PRECISION=fp16 ACCELERATE_USE_FSDP=true FSDP_OFFLOAD_PARAMS=false dlrun -- python3 t.py", result.script)

    def test_no_text_is_too_odd(self):
        for text in ("", "\n", "#!/bin/bash\nsrun", "srun \"", "torchrun $(", "A=(\nsrun $A", "X=\"$X\"\n$X\n", "srun bash -c '", "torchrun --nproc_per_node",
                     "A=$B\nB=$A\n$A t.py\n", "mpirun -np $((2 +)) python t.py\n", "a" * 5000 + "\n", "srun \\", "<<EOF", "$(" * 500, "${" * 500 + "\nsrun python t.py"):
            migrate(text)
            for cut in range(0, min(len(text), 40)):
                migrate(text[:cut])


class Manifests(support.Case):
    TEXT = ("name: digits net\ndescription: A net\ngpus: 1\ncpus: 2\nmemory: 4Gb\nlearners: 3\ndata_stores:\n- id: s\n  type: {kind}\n"
            "  training_data: {{container: in}}\n  training_results: {{container: out}}\n  connection: {{user_name: me, password: sesame, path: /data}}\n"
            "framework:\n  name: pytorch\n  command: >\n    python3 t.py\n    --it 'x' $DATA_DIR\nevaluation_metrics: {{type: tensorboard, in: $LOG_DIR/tb}}\n")

    def test_a_manifest_becomes_a_script(self):
        script = manifest.migrate(self.TEXT.format(kind="mount_volume"))
        for expected in ("#SBATCH --job-name=digits-net\n", "#SBATCH --dl-framework=pytorch --dl-learners=3 --dl-gpus=1\n", "#SBATCH --cpus-per-task=2\n",
                         "#SBATCH --mem-per-cpu=1908M\n", "export DATA_DIR=/data/in\n", "export RESULT_DIR=/data/out/$SLURM_JOB_ID\n",
                         "exec dlrun -- bash -c 'python3 t.py --it '\\''x'\\'' $DATA_DIR'\n"):
            self.assertIn(expected, script.text)
        done = subprocess.run(["bash", "-n"], input=script.text, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_lies_in_an_object_store_is_asked_for_and_no_secret_is_copied(self):
        script = manifest.migrate(self.TEXT.format(kind="mount_cos"))
        self.assertIn('export DATA_DIR="${DATA_DIR:?', script.text)
        self.assertNotIn("sesame", script.text + " ".join(script.notes))

    def test_what_is_no_manifest_is_refused_with_a_reason(self):
        for text, reason in (("a: [", "not YAML"), ("a: 1", "no section 'framework'"), ("framework: {name: x}", "framework.command is missing"),
                             ("framework: {command: x}\nmemory: lots", "not a size"), ("framework: {command: x}\nlearners: -1", "not a number from 0"),
                             ("framework: {command: x}\ngpus: !!python/object:os.system x", "not YAML"), ("framework: {command: x}\ndata_stores: 3", "no"),
                             ("framework: {command: [a, b]}", "framework.command: ['a', 'b'] is no text"), ("framework: {command: null}", "command is missing"),
                             ("framework: {command: x, name: {a: b}}", "framework.name: {'a': 'b'} is no text"), ("framework: {command: x, version: [1]}", "version"),
                             ("framework: {command: x}\nname: [a]", "name: ['a'] is no text"), ("framework: {command: x}\nlearners: yes", "learners: True is not a number"),
                             ("framework: {command: x}\nlearners: .nan", "not a number from"), ("framework: {command: x}\nmemory: [4]", "not a size"),
                             ("framework: {command: x}\nname: 2020-13-45", "not YAML"), ("framework: {command: x}\ngpus: 1\ngpu_type: {}", "gpu_type"),
                             ("framework: {command: x}\ndata_stores: [{type: mount_volume, training_data: here}]", "training_data: 'here' is no section"),
                             ("framework: {command: x}\ndata_stores: [{connection: [a]}]", "connection: ['a'] is no section"),
                             ("framework: {command: x}\ndata_stores: [{training_data: {container: [a]}}]", "container: ['a'] is no text"),
                             ("framework: {command: x}\ndescription: " + "[" * 3000 + "]" * 3000, "not YAML")):
            with self.assertRaises(manifest.Broken) as caught:
                manifest.migrate(text)
            self.assertIn(reason, str(caught.exception))


class Program(support.Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.script = os.path.join(self.folder.name, "a.sh")
        with open(self.script, "w") as file:
            file.write(HEAD + "srun --odd python t.py\n")

    def environment(self):
        return {**os.environ, "PYTHONPATH": os.path.join(support.SOURCE, "launcher", "python")}

    def run_it(self, *words, **options):
        done = subprocess.run([sys.executable, "-m", "dl.migrate", *words], capture_output=True, env=self.environment(), **options)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def test_the_difference_can_be_applied_by_patch(self):
        done = self.run_it(self.script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{self.script}:5: '--odd' of srun is not known here", done.stderr)
        self.assertIn("+dlrun -- python t.py\n", done.stdout)
        patched = subprocess.run(["patch", "-o", "-", self.script], input=done.stdout, capture_output=True, text=True)
        self.assertEqual(patched.stdout, migrate(HEAD + "srun --odd python t.py\n").script, patched.stderr)

    def test_it_writes_a_new_file_and_never_over_another(self):
        new = os.path.join(self.folder.name, "b.sh")
        self.assertEqual(self.run_it(self.script, "--write", new).returncode, 0)
        with open(new) as file:
            self.assertIn("dlrun -- python t.py", file.read())
        done = self.run_it(self.script, "--write", new)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is there already", done.stderr)

    def test_a_script_of_dos_is_shown_with_its_own_lines_and_written_with_those_of_bash(self):
        with open(self.script, "w", newline="") as file:
            file.write((HEAD + "# a\x0cb\nsrun python t.py\n").replace("\n", "\r\n"))
        done = self.run_it(self.script)
        self.assertIn("lines end with CR LF", done.stderr)
        patched = subprocess.run(["patch", "--binary", "-o", "-", self.script], input=done.stdout.encode(), capture_output=True)
        self.assertEqual(patched.stdout.decode(), migrate(HEAD + "# a\x0cb\nsrun python t.py\n").script, patched.stderr)

    def test_a_full_disk_leaves_no_half_of_a_script(self):
        new = os.path.join(self.folder.name, "b.sh")
        with open(self.script, "a") as file:
            file.write("# long\n" * 1000)
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # noqa: E731
        done = self.run_it(self.script, "--write", new, preexec_fn=limit)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"--write: {new}: File too large", done.stderr)
        self.assertFalse(os.path.exists(new))
        for words in ([], ["--json"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([sys.executable, "-m", "dl.migrate", *words, self.script], stdout=full, stderr=subprocess.PIPE, text=True, env=self.environment())
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.splitlines()[-1], "dlctl migrate: standard output: No space left on device")

    def test_json_has_the_script_and_the_remarks(self):
        found = json.loads(self.run_it("--json", self.script).stdout)
        self.assertEqual((found["learners"], found["gpus"], found["launches"]), ("2", 4, 1))
        self.assertEqual([note["line"] for note in found["notes"]], [1, 5])

    def test_a_file_without_a_training_is_refused(self):
        with open(self.script, "w") as file:
            file.write("#!/bin/bash\nmake\n")
        done = self.run_it(self.script)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no line was found that starts a training", done.stderr)
        self.assertEqual(self.run_it("/no/such/file").returncode, 1)


if __name__ == "__main__":
    support.main()
