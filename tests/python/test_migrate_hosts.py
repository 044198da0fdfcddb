# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: loops that start a script on each node, and launchers that leave GPUs to their program."""
import os
import sys
import tempfile
from typing import Any

import support
from test_migrate import body_of, of

sys.path.insert(0, os.path.join(support.SOURCE, "launcher", "python"))

NODES = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n#SBATCH --cpus-per-task=32\n"
NODE = "#!/bin/bash\n#SBATCH --gres=gpu:8\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=64\n"
LIST = "hosts=($(scontrol show hostnames $SLURM_JOB_NODELIST))\nfirst=${hosts[0]}\n"


class Hosts(support.Case):
    def of(self, body: str, head: str = NODES) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("launch.sh", "torchrun --nnodes=2 --node_rank=$1 --nproc_per_node=4 --master_addr=$2 t.py\n"), ("setup.sh", "pip install x\n")):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
            return of(body, head, folder)

    def test_a_script_that_ssh_starts_on_each_node_is_run_by_one_learner_there(self):
        for before, loop, more in (("n=0\n", "for h in ${hosts[@]}; do", "  n=$((n+1))\n"), ("n=0\n", "for h in ${hosts[@]}; do", "  ((n++))\n"), ("", "for n in ${!hosts[@]}; do", ""),
                                   ("", "for ((n=0; n<2; n++)); do", ""), ("n=0\n", "for h in ${hosts[@]}; do\n  echo on $h", "  let n+=1\n  sleep 1\n")):
            host = "$h" if " h in" in loop else "${hosts[$n]}"
            result = self.of(LIST + before + loop + f'\n  ssh -n {host} "cd $PWD && bash launch.sh $n $first" &\n' + more + "done\nwait\n")
            self.assertEqual((result.learners, result.gpus, result.framework), ("2", 4, "pytorch"), loop)
            self.assertEqual(body_of(result).partition("}\n")[2], before + 'dlrun -- bash -c "cd $PWD && bash launch.sh \\$DL_NODE_RANK $first"\n', loop)
            self.assertIn("#SBATCH --cpus-per-task=32\n", result.script)

    def test_the_name_of_the_node_is_that_of_the_learner(self):
        result = self.of(LIST + 'n=0\nfor h in ${hosts[@]}; do\n  ssh $h "nohup bash $PWD/launch.sh $n $first > log.$h 2>&1 &"\n  n=$((n+1))\ndone\nwait\n')
        self.assertIn('\ndlrun -- bash -c "nohup bash $PWD/launch.sh \\$DL_NODE_RANK $first > log.\\$(hostname) 2>&1 "\n', result.script)

    def test_the_first_node_that_starts_its_script_itself(self):
        for front, loop, behind in (("", 'for ((n=1; n<2; n++)); do\n  ssh ${hosts[$n]} "bash launch.sh $n $first" &\ndone\n', "bash launch.sh 0 $first\n"),
                                    ("n=0\n", 'for h in ${hosts[@]}; do\n  if [ $n -gt 0 ]; then ssh $h "bash launch.sh $n $first" & fi\n  n=$((n+1))\ndone\n', "./launch.sh 0 $first &\nwait\n")):
            behind = behind if front == "" else behind.replace("./", "bash ")
            body = body_of(self.of(LIST + front + loop + behind)).partition("}\n")[2]
            self.assertEqual(body, front + 'dlrun -- bash -c "bash launch.sh \\$DL_NODE_RANK $first"\n')

    def test_srun_for_one_node_after_the_other(self):
        loop = LIST + "for n in ${!hosts[@]}; do\n  srun -N1 -n1 -w ${hosts[$n]} %s &\n  all+=($!)\ndone\nwait\n"
        result = self.of(loop % "bash launch.sh $n $first")
        self.assertEqual(result.learners, "2")
        self.assertIn('''\ndlrun -- bash -c 'exec "${@:1:2}" "$DL_NODE_RANK" "${@:3}"' learner bash launch.sh $first\n''', result.script)
        self.assertIn('\ndlrun -- bash -c "cd x; ./launch.sh \\$DL_NODE_RANK $first"\n', self.of(loop % 'bash -c "cd x; ./launch.sh $n $first"').script)

    def test_what_is_not_understood_stays_and_is_said(self):
        for command, more in (("bash launch.sh $(grep -n $h list)", ""), ("bash launch.sh $((n + 1))", ""), ("bash launch.sh $n", "  cp a b\n"), ("bash launch.sh $other", "  other=$(f $h)\n")):
            body = LIST + f'n=0\nfor h in ${{hosts[@]}}; do\n  ssh $h "{command}" &\n{more}  n=$((n+1))\ndone\nwait\n'
            result = self.of(body)
            self.assertEqual((result.launches, result.script), (0, NODES + body), command)
            self.assertIn("in a way that is not understood", str(result.notes), command)
        result = self.of(LIST + 'for h in ${hosts[@]}; do\n  ssh $h "bash elsewhere.sh" &\ndone\nwait\n')
        self.assertEqual(result.launches, 0)
        self.assertIn("what elsewhere.sh starts on each node is not known, as it is not here", str(result.notes))

    def test_a_script_that_prepares_nodes_is_none_of_them(self):
        loop = 'for h in ${hosts[@]}; do\n  ssh $h "bash setup.sh" &\ndone\nwait\n'
        result = self.of(LIST + loop + "srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$first:1 t.py\n")
        self.assertEqual(result.learners, "8")
        self.assertIn(loop + "dlrun -- python3 t.py\n", result.script)


class Left(support.Case):
    def test_gpus_that_a_launcher_leaves_to_its_program_are_there_still(self):
        for front in ("", "srun ", "srun --gres=gpu:8 "):
            result = of(f"export MASTER_PORT=1\n{front}accelerate launch --config_file a.yaml --num_processes=7 --main_process_port $MASTER_PORT t.py\n", NODE)
            self.assertEqual((result.learners, result.gpus, result.framework), ("1", 8, "pytorch"), front)
            self.assertIn("\nexport MASTER_PORT=1\ndlrun --alone -- accelerate launch --config_file a.yaml --num_processes=7 --main_process_port $MASTER_PORT t.py\n", result.script)
            self.assertIn("#SBATCH --cpus-per-task=64\n", result.script)
            self.assertEqual([note.text[:50] for note in result.notes], ["this starts 7 processes where there are 8 GPUs, an"])
        self.assertEqual(body_of(of('N=7\nL="torchrun --nproc_per_node=$N"\n$L t.py\n', NODE)), 'N=7\nL="torchrun --nproc_per_node=$N"\ndlrun --alone -- $L t.py\n')
        self.assertEqual(body_of(of('C="accelerate launch --num_processes 7 t.py"\nsrun bash -c "$C"\n', NODE)), 'C="accelerate launch --num_processes 7 t.py"\ndlrun --alone -- bash -c "$C"\n')

    def test_it_is_one_of_several_launches(self):
        result = of("torchrun --nproc_per_node=8 a.py\nCUDA_VISIBLE_DEVICES=0,1,2 torchrun --nproc_per_node=3 t.py\n", NODE)
        self.assertEqual((result.learners, result.gpus), ("8", 1))
        self.assertIn("\ndlrun --learners 1 --gpus 8 --alone -- env CUDA_VISIBLE_DEVICES=0,1,2 torchrun --nproc_per_node=3 t.py\n", result.script)

    def test_whole_numbers_of_gpus_are_those_of_the_learners(self):
        self.assertEqual((of("torchrun --nproc_per_node=4 t.py\n", NODE).learners, of("torchrun --nproc_per_node=4 t.py\n", NODE).gpus), ("4", 2))


if __name__ == "__main__":
    support.main()
