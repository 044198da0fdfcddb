# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: shapes of whole scripts as sites teach them: files that are sourced, loops over nodes, lines that stay."""
import os
import subprocess
import sys
import tempfile

import support
from test_migrate import HEAD, body_of, of

sys.path.insert(0, os.path.join(support.SOURCE, "launcher", "python"))
from dl.migrate.rewrite import migrate  # noqa: E402


class Meeting(support.Case):
    """What a script says itself of where ranks meet, and of who they are, would hide what dlrun says."""
    SETS = "export RANK=$SLURM_PROCID\nexport MASTER_PORT=29500  # torchrun's\n"

    def with_file(self, body, content, name="vars.sh"):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, name), "w") as file:
                file.write(content)
            return of(body, folder=folder)

    def ranks(self, result):
        """RANK and MASTER_PORT as the program sees them, where dlrun says 3 and 1234."""
        code = body_of(result).replace("python3 t.py", "echo $RANK $MASTER_PORT $OTHER").replace("python3 \\$T", "echo \\$RANK \\$MASTER_PORT \\$OTHER")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "vars.sh"), "w") as file:
                file.write(self.SETS + "export OTHER=kept\n")
            done = subprocess.run(["bash", "-c", 'dlrun() { shift; RANK=3 MASTER_PORT=1234 "$@"; }\n' + code], capture_output=True, text=True, cwd=folder)
        return (done.stdout + done.stderr).strip()

    def test_a_file_that_only_names_the_meeting_is_not_sourced(self):
        for body, expected in (
                ('srun bash -c "source vars.sh; python3 t.py"\n', 'dlrun -- bash -c "python3 t.py"\n'),
                ("srun bash -c '\n  . ./vars.sh\n  python3 t.py\n'\n", "dlrun -- bash -c '\n  python3 t.py\n'\n"),
                ("srun bash -c 'cd /d && source vars.sh && python3 t.py'\n", "dlrun -- bash -c 'cd /d && python3 t.py'\n"),
                ('srun shifter bash -c "source $SLURM_SUBMIT_DIR/vars.sh; python3 t.py"\n', 'dlrun -- shifter bash -c "python3 t.py"\n')):
            result = self.with_file(body, self.SETS)
            self.assertEqual(body_of(result), expected)
            self.assertIn("vars.sh", str(result.notes))

    def test_of_a_file_that_does_more_the_variables_of_dlrun_win(self):
        for quote in "'\"":
            result = self.with_file(f"srun bash -c {quote}source vars.sh && python3 {'t.py' if quote == chr(39) else chr(92) + '$T'}{quote}\n", self.SETS + "export OTHER=kept\n")
            self.assertEqual(self.ranks(result), "3 1234 kept", result.script)
            self.assertIn("RANK", str(result.notes))

    def test_a_file_that_is_not_there_is_named_with_its_line(self):
        result = of("srun bash -c 'source vars.sh; python3 torch.py'\n")
        self.assertEqual([note.line for note in result.notes], [5])
        self.assertIn("vars.sh", result.notes[0].text)
        for harmless in ("~/.bashrc", "$CONDA/etc/profile.d/conda.sh", "/v/bin/activate"):
            self.assertEqual(of(f"srun bash -c 'source {harmless}; python3 torch.py'\n").notes, [], harmless)
        self.assertEqual(self.with_file("srun bash -c 'source vars.sh; python3 torch.py'\n", "export A=1\n").notes, [])

    def test_within_a_container_they_go_as_without_one(self):
        for front in ("singularity exec -B /a:/b i.sif ", "apptainer exec --nv i.sif ", "", "./wrapper.sh ", "env A=b numactl -l "):
            result = of(f"srun {front}bash -c 'export MASTER_PORT=29500; export RANK=$SLURM_PROCID; echo rank $RANK; python3 t.py'\n")
            self.assertEqual(body_of(result), f"dlrun -- {front}bash -c 'echo rank $RANK; python3 t.py'\n")
        result = of("export MASTER_ADDR=a\nsrun singularity exec i.sif bash -c 'export NODE_RANK=$SLURM_NODEID; torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$NODE_RANK "
                    "--master_addr=$MASTER_ADDR t.py'\n")
        self.assertEqual(body_of(result), "dlrun -- singularity exec i.sif bash -c 'python3 t.py'\n")
        self.assertEqual((result.learners, result.notes), ("8", []))

    def test_a_launcher_in_the_text_of_a_shell_needs_no_srun(self):
        for front in ("bash -c ", "singularity exec i.sif bash -c "):
            self.assertEqual(body_of(of(front + "'cd /d; torchrun --nproc_per_node=4 t.py'\n")), f"dlrun -- {front}'cd /d; python3 t.py'\n")

    def test_options_that_hand_them_on_go(self):
        for line in ("mpirun -np 2 -x MASTER_ADDR=$(hostname) -x MASTER_PORT=1234 -x A=b python torch.py", "srun --export=ALL,NODE_RANK=$i,A=b python torch.py"):
            self.assertEqual(body_of(of(line + "\n")), "A=b dlrun -- python torch.py\n")
        self.assertIn("MASTER_PORT=1 dlrun", of("srun --export=ALL,MASTER_PORT=1 bash -c 'python torch.py tcp://h:$MASTER_PORT'\n").script)

    def test_a_script_beside_it_that_sets_them_is_told(self):
        result = self.with_file("srun bash run.sh\n", "cd /d\n" + self.SETS + "python t.py\n", "run.sh")
        self.assertEqual(body_of(result), "MASTER_PORT=29500 dlrun -- bash run.sh\n")
        self.assertIn("run.sh says itself where the ranks meet", str(result.notes))
        result = self.with_file("srun bash run.sh\n", "cd /d\nexport RANK=$((SLURM_NODEID))\npython t.py\n", "run.sh")
        self.assertIn("run.sh:2 sets RANK", str(result.notes))


class Nodes(support.Case):
    """What a script does node by node."""
    PART = "torchrun --nnodes=2 --nproc_per_node=4 --node_rank={rank} --master_addr=$head t.py --lr 1"

    def test_the_setup_of_nodes_stays_with_srun(self):
        for setup in ("srun -N $SLURM_NNODES -n $SLURM_NNODES config_env.sh", "srun -n 2 bash prepare.sh", "srun --ntasks=2 ./a.sh", "srun --ntasks-per-node=1 --nodes=2 b.sh"):
            result = of(setup + "\nsrun python t.py\n", HEAD.replace("per-node=1", "per-node=4"))
            self.assertEqual(body_of(result), setup + "\ndlrun -- python t.py\n")
            self.assertEqual((result.launches, result.learners), (1, "8"))
        result = of("srun -n 2 run1.sh\nsrun -n 2 run2.sh\n")
        self.assertEqual(body_of(result), "dlrun -- ./run1.sh\ndlrun -- ./run2.sh\n")

    def test_what_srun_ran_once_a_node_is_still_run_once_a_node(self):
        result = of("srun cp -r data /tmp\nsrun setup_env.sh\nsrun -n 1 mkdir x\nsrun torchrun --nnodes 2 --nproc_per_node 4 t.py\n")
        self.assertEqual(body_of(result), "srun --ntasks=2 cp -r data /tmp\nsrun --ntasks=2 setup_env.sh\nsrun -n 1 mkdir x\ndlrun -- python3 t.py\n")
        self.assertEqual(body_of(of("srun cp -r data /tmp\nsrun python t.py\n")), "srun cp -r data /tmp\ndlrun -- python t.py\n")

    def test_a_loop_that_starts_each_node_becomes_one_launch(self):
        for loop in ("for ((i=0; i<2; i++)); do\n  srun -N1 -n1 -w ${{nodes[i]}} {part} &\ndone\nwait\n",
                     "for ((i = 0; i < 2; i++))\ndo\n  n=${{nodes[$i]}}\n  echo $n\n  srun -N 1 -n 1 --nodelist=$n \\\n    {part} &\n  sleep 5\ndone\nwait\n",
                     "for i in $(seq 0 1); do srun -N1 -n1 -w ${{nodes[i]}} {part} & done; wait\n",
                     "i=0\nfor n in ${{nodes[@]}}; do\n  srun -N1 -n1 -w $n {part} &\n  i=$((i + 1))\ndone\nwait\n"):
            result = of("head=a\n" + loop.format(part=self.PART.format(rank="$i")))
            code = [line.strip() for line in body_of(result).splitlines() if "dlrun" in line or "for " in line or "done" in line or "srun" in line or "&" in line]
            self.assertEqual(code, ["dlrun -- python3 t.py --lr 1"], result.script)
            self.assertEqual((result.launches, result.learners), (1, "8"))
            self.assertEqual(result.notes, [])
            subprocess.run(["bash", "-n"], input=result.script, text=True, check=True)

    def test_a_head_and_a_loop_of_workers_become_one_launch(self):
        body = ("echo head\nsrun -N1 -n1 -w $head " + self.PART.format(rank="0") + " &\nsleep 10\n" +
                "for ((i=1; i<2; i++)); do\n  srun -N1 -n1 -w ${nodes[i]} " + self.PART.format(rank="$i") + " &\ndone\nwait\necho end\n")
        result = of("head=a\n" + body)
        self.assertEqual(body_of(result), "head=a\necho head\ndlrun -- python3 t.py --lr 1\nsleep 10\necho end\n")
        self.assertEqual(result.learners, "8")
        body = "srun -w a " + self.PART.format(rank="0") + " &\nsrun -w b " + self.PART.format(rank="1") + "\n"
        self.assertEqual(body_of(of(body)), "dlrun -- python3 t.py --lr 1\n")

    def test_a_loop_that_does_more_is_told(self):
        for inside in ("rsync a b", "cd $i"):
            result = of(f"for i in 0 1; do\n  {inside}\n  srun -w $i " + self.PART.format(rank="$i") + " &\ndone\nwait\n")
            self.assertIn((7, "loop"), [(note.line, "loop") for note in result.notes if "loop" in note.text])
        result = of("for i in 0 1; do\n  srun -w $i " + self.PART.format(rank="$i") + " --out $i &\ndone\nwait\n")
        self.assertIn("loop", str(result.notes))
        result = of("for i in 0 1; do\n  srun -w $i --export=ALL,LOG=$i " + self.PART.format(rank="$i") + " &\ndone\nwait\n")
        self.assertIn("loop", str(result.notes))
        result = of("for s in 1 2; do\n  torchrun --nproc_per_node=2 t.py --seed $s &\ndone\nwait\n", "#!/bin/bash\n#SBATCH --gpus=4\n")
        self.assertEqual((result.learners, result.gpus), ("4", 1))
        self.assertIn("dlrun --learners 2 -- python3 t.py --seed $s &\n", result.script)
        result = of("for s in 1 2; do\n  srun python torch.py --seed $s\ndone\n")
        self.assertEqual((body_of(result), result.notes), ("for s in 1 2; do\n  dlrun -- python torch.py --seed $s\ndone\n", []))


class Kept(support.Case):
    """Lines that stay, and variables and options that are no longer there for them."""
    TORCH = "srun torchrun --nnodes 2 --nproc_per_node 4 --rdzv_endpoint $h:1 t.py"

    def test_cpus_that_are_shared_already_are_not_divided_again(self):
        head = HEAD.replace("gres=gpu:4", "gpus-per-node=4\n#SBATCH --cpus-per-task=32")
        for line, expected in (
                ("export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK/4))", "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK"),
                ("export OMP_NUM_THREADS=$(( $SLURM_CPUS_PER_TASK / $SLURM_GPUS_ON_NODE ))", "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK"),
                ("export OMP_NUM_THREADS=$(( ${SLURM_CPUS_PER_TASK} / UNKNOWN ))", "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK"),
                ("export A=$(expr $SLURM_CPUS_PER_TASK / 4) B=`expr $SLURM_CPUS_PER_TASK / 4`", "export A=$SLURM_CPUS_PER_TASK B=$SLURM_CPUS_PER_TASK"),
                ("export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK / 4 - 1))", "export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK - 1))"),
                ("N=4\nC=$SLURM_CPUS_PER_TASK\nexport OMP_NUM_THREADS=$((C / N))", "N=4\nC=$SLURM_CPUS_PER_TASK\nexport OMP_NUM_THREADS=$C")):
            result = of(line + "\n" + self.TORCH + "\n", head)
            self.assertEqual(body_of(result), expected + "\ndlrun -- python3 t.py\n")
            self.assertIn("of a learner", str(result.notes))
        half = "export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK / 2))\n"
        self.assertIn(half, of(half + self.TORCH + "\n", head).script)
        same = "export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK / 4))\n"
        self.assertIn(same, of(same + "srun python t.py\n", head).script)

    def test_variables_of_options_that_went_become_numbers(self):
        head = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=a100:4\n"
        for line, expected in (("echo $SLURM_GPUS_PER_NODE", "echo 4"), ("W=$((SLURM_NNODES * SLURM_GPUS_PER_NODE))", "W=$((SLURM_NNODES * 4))"),
                               ("G=${SLURM_GPUS_PER_NODE:-8}", "G=4"), ("# $SLURM_GPUS_PER_NODE", "# $SLURM_GPUS_PER_NODE"), ("echo $SLURM_GPUS_ON_NODE", "echo $SLURM_GPUS_ON_NODE")):
            result = of(line + "\n" + self.TORCH + "\n", head)
            self.assertEqual(body_of(result).splitlines()[0], expected)
            self.assertEqual(bool(result.notes), expected != line)
        result = of("srun python t.py --devices $SLURM_GPUS --each ${SLURM_GPUS_PER_TASK}\n", "#!/bin/bash\n#SBATCH -n 4 --gpus=8 --gpus-per-task=2\n")
        self.assertIn("dlrun -- python t.py --devices 8 --each 2\n", result.script)
        result = of("SLURM_GPUS_PER_NODE=2\necho $SLURM_GPUS_PER_NODE\n" + self.TORCH + "\n", head)
        self.assertIn("echo $SLURM_GPUS_PER_NODE\n", result.script)

    def test_srun_that_asks_for_all_itself_keeps_gpus_and_nodes(self):
        for gres in ("--gres=gpu:${GPUS_PER_NODE}", "--gpus-per-node=$GPUS_PER_NODE", "--gres=gpu:a100:4"):
            for args in ("${SRUN_ARGS}", '$SRUN_ARGS', ""):
                result = migrate("#!/usr/bin/env bash\nP=$1\nGPUS=${GPUS:-8}\nGPUS_PER_NODE=${GPUS_PER_NODE:-4}\nCPUS_PER_TASK=${CPUS_PER_TASK:-5}\nSRUN_ARGS=${SRUN_ARGS:-\"\"}\n"
                                 f"srun -p ${{P}} {gres} --ntasks=${{GPUS}} --ntasks-per-node=${{GPUS_PER_NODE}} --cpus-per-task=${{CPUS_PER_TASK}} \\\n"
                                 f'  --kill-on-bad-exit=1 {args} \\\n  python -u tools/train.py --launcher="slurm" ${{@:5}}\n')
                self.assertIn('\ndlrun -- python -u tools/train.py --launcher="slurm" ${@:5}\n', result.script)
                kind = "a100:" if "a100" in gres else ""
                self.assertIn(f"#SBATCH --dl-framework=pytorch --dl-learners=8 --dl-gpus={kind}1\n#SBATCH --", result.script)
                for flag in ("cpus-per-task=5", "nodes=2", "ntasks-per-node=4"):
                    self.assertIn(f"#SBATCH --{flag}\n", result.script)
                self.assertNotIn("--cpus-per-task", str(result.notes))

    def test_tasks_of_a_node_stay_where_they_say_how_many_nodes(self):
        result = of("mpirun -np 4 --map-by ppr:2:node python t.py\n", "#!/bin/bash\n#SBATCH -n 4 --ntasks-per-node=2\n#SBATCH --gpus-per-task=1\n")
        self.assertIn("#SBATCH --nodes=2\n", result.script)
        self.assertIn("#SBATCH --ntasks-per-node=2\n", result.script)
        self.assertNotIn("map-by", str(result.notes))
        result = of(self.TORCH + "\n", "#!/bin/bash\n#SBATCH -n 2 --ntasks-per-node=1 --gpus-per-task=4\n")
        self.assertIn("#SBATCH --nodes=2\n", result.script)
        self.assertNotIn("ntasks-per-node", result.script)

    def test_a_placement_that_is_dropped_is_told(self):
        for line, word in (("mpirun -np 2 --map-by ppr:4:socket python t.py", "--map-by"), ("mpirun -np 2 --rankfile r python t.py", "--rankfile"),
                           ("horovodrun -np 2 --network-interface ib0 python t.py", "HOROVOD_GLOO_IFACE=ib0"), ("srun --cpu-bind=mask_cpu:0x1,0x2 python t.py", "--cpu-bind"),
                           ('B="map_cpu:1,2"\nsrun --cpu-bind=$B python t.py', "--cpu-bind"), ("srun -m cyclic python t.py", "-m cyclic"), ("srun -w n1 python t.py", "n1"),
                           ("srun --gpu-bind=map_gpu:3,2,1,0 python t.py", "--gpu-bind")):
            result = of(line + "\n")
            self.assertIn(word, " ".join(note.text for note in result.notes), line)
        for line in ("mpirun -np 2 --map-by slot --bind-to none python t.py", "srun --cpu-bind=none --gpu-bind=closest -m block:block python torch.py"):
            self.assertEqual(of(line + "\n").notes, [], line)

    def test_a_range_of_nodes_has_the_gpus_of_its_learners(self):
        result = of("srun torchrun --nnodes=1:4 --nproc_per_node=4 --rdzv_endpoint=$h:1 t.py\n", "#!/bin/bash\n#SBATCH --nodes=1-4\n#SBATCH --gpus-per-node=4\n")
        self.assertEqual((result.learners, result.gpus), ("4:16", 1))
        self.assertNotIn("--nodes", result.script)  # --dl-learners=4:16 says how many; sbatch refuses both
        self.assertNotIn("not shared", str(result.notes))
        result = of(self.TORCH + "\n", "#!/bin/bash\n#SBATCH --nodes=1-4\n#SBATCH --gpus-per-node=4\n")
        self.assertEqual((result.learners, result.gpus, result.notes), ("8", 1, []))
        self.assertIn("--nodes=1-4", result.script)


class Frameworks(support.Case):
    def test_the_program_itself_tells_its_framework(self):
        for code, framework in (("import torch.nn as nn\n", "pytorch"), ("if 1:\n  from lightning.pytorch import Trainer\n", "pytorch"), ("import horovod.torch as hvd\nimport torch\n", "horovod"),
                                ("import tensorflow as tf\n", "tensorflow"), ("import jax\n", "jax"), ("from mpi4py import MPI\n", "mpi")):
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "t.py"), "w") as file:
                    file.write(code)
                for line in ("srun python t.py\n", "srun bash -c 'python t.py'\n"):
                    result = of(line, folder=folder)
                    self.assertEqual((result.framework, result.notes), (framework, []), line)

    def test_one_that_is_not_told_is_asked_for(self):
        self.assertIn("--dl-framework", str(of("srun python3 -u t.py\n").notes))
        self.assertNotIn("--dl-framework", str(of("srun ./a.out\n").notes))

    def test_tensorflow_under_mpirun_is_that_of_horovod(self):
        self.assertEqual(of("mpirun -np 8 python tensorflow2_mnist.py\n").framework, "horovod")
        self.assertEqual(of("srun python tensorflow2_mnist.py\n").framework, "tensorflow")

    def test_a_program_that_starts_others_itself_is_told(self):
        result = of("python ./starts_all.py train.py config.yml\n")
        self.assertIn("asks for 2 nodes", str(result.notes))
        self.assertEqual(result.gpus, 4)
        self.assertNotIn("asks for", str(of("python train.py\n", HEAD.replace("nodes=2", "nodes=1")).notes))

    def test_a_script_that_is_called_is_named(self):
        result = of("./distributed_train.sh 4 /data\n")
        self.assertEqual(result.launches, 0)
        self.assertIn("./distributed_train.sh", str(result.notes))


class Rest(support.Case):
    """What stands further on in a command, or where nothing is rewritten."""

    def test_a_launcher_in_a_variable_behind_a_container_is_found(self):
        for body, expected in (
                ('C="singularity exec i.sif"\nL="torchrun --nproc_per_node=4 --nnodes=2"\nsrun $C $L t.py\n', 'C="singularity exec i.sif"\ndlrun -- $C python3 t.py\n'),
                ('L="singularity exec i.sif torchrun --nproc_per_node=4 --nnodes=2"\nsrun $L t.py\n', 'L="singularity exec i.sif python3"\ndlrun -- $L t.py\n'),
                ('L="torchrun --nproc_per_node=4 --nnodes=2"\nsrun apptainer exec $IMG $L t.py\n', "dlrun -- apptainer exec $IMG python3 t.py\n")):
            result = of(body)
            self.assertEqual((body_of(result), result.learners), (expected, "8"))

    def test_the_value_of_an_option_is_no_launcher(self):
        self.assertEqual(body_of(of('A="--backend deepspeed"\nsrun ./prog $A --x\n')), 'A="--backend deepspeed"\ndlrun -- ./prog $A --x\n')

    def test_a_launcher_that_is_not_understood_is_named(self):
        result = of("cat > run.sh <<EOF\ntorchrun --nproc_per_node=4 t.py\nEOF\nsrun python torch.py\n")
        self.assertIn((6, True), [(note.line, "torchrun" in note.text) for note in result.notes])
        result = of('for h in a b; do ssh $h "cd /d; torchrun --nproc_per_node=4 t.py" & done\nwait\n')
        self.assertEqual((result.launches, [note.line for note in result.notes]), (0, [5]))
        self.assertEqual(of("# torchrun x\necho torchrun y\nwhich torchrun\ntorchrun --nnodes 2 --nproc_per_node=4 t.py\n").notes, [])

    def test_the_nodes_of_ray_stay_its_own(self):
        result = of("srun -N1 -n1 ray start --head --block &\npython -u train.py\n")
        self.assertEqual((result.launches, result.script), (0, HEAD + "srun -N1 -n1 ray start --head --block &\npython -u train.py\n"))
        self.assertIn("Ray", str(result.notes))

    def test_a_script_that_is_written_on_the_way_is_read(self):
        for write in ("cat > run.sh <<'EOF'", "cat << EOF > ./run.sh"):
            result = of(write + "\nexport RANK=\\$((SLURM_NODEID))\npython torch.py\nEOF\nsrun bash run.sh\n")
            self.assertIn("run.sh:1 sets RANK", str(result.notes))

    def test_the_cpus_of_the_only_srun_are_those_of_the_job(self):
        result = of("srun -n8 -c7 python torch.py\n", "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --gpus=8\n")
        self.assertIn("#SBATCH --cpus-per-task=7\n", result.script)
        self.assertEqual(result.notes, [])

    def test_processes_of_torchrun_saw_all_gpus_already(self):
        head = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks=2 --gpus-per-task=4\n"
        self.assertEqual(of("srun torchrun --nnodes 2 --nproc_per_node 4 --rdzv_endpoint $h:1 t.py\n", head).notes, [])
        self.assertEqual(of("srun python torch.py\n", head).notes, [])
        self.assertIn("--gpus-per-task", str(of("srun ./a.out\n", head.replace("ntasks=2", "ntasks=4")).notes))


if __name__ == "__main__":
    support.main()
