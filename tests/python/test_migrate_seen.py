# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: what a process sees that runs beside or instead of others, and scripts that sbatch would refuse."""
import os
import sys
import tempfile

import support
from test_migrate import body_of, of

sys.path.insert(0, os.path.join(support.SOURCE, "launcher", "python"))

NODE = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:4\n#SBATCH --cpus-per-task=16\n"


class Branches(support.Case):
    def test_one_process_of_another_branch_sees_the_gpus_that_it_saw(self):
        body = 'if [ "$1" = torch ]; then\n  srun torchrun --nproc_per_node=4 t.py\nelse\n  srun {}python j.py --devices 4\nfi\n'
        for told, gpus in (("", " --gpus 4"), ("--gres=gpu:2 ", " --gpus 2"), ("--gpus=1 ", "")):
            result = of(body.format(told), NODE)
            self.assertEqual((result.learners, result.gpus), ("4", 1))
            self.assertIn(f"  dlrun --learners 1{gpus} --alone -- python j.py --devices 4\n", result.script, told)

    def test_processes_beside_one_another_share_the_gpus(self):
        result = of("for i in 0 1 2 3; do\n  srun -n1 --gres=gpu:1 python t.py $i &\ndone\nwait\n", NODE)
        self.assertIn("  dlrun --learners 1 --alone -- python t.py $i &\n", result.script)


class Containers(support.Case):
    TEXT = 'enroot start --mount /a:/b image bash -c "\n  ls /b &&\n  NCCL_DEBUG=INFO MASTER_PORT=${port} MASTER_ADDR=${addr} WORLD_SIZE=4 \\\n    torchrun --nproc_per_node=4 --master_port=${port} t.py\n"\n'

    def test_enroot_is_told_which_variables_its_program_gets(self):
        result = of(self.TEXT, NODE)
        self.assertEqual(result.learners, "4")
        self.assertRegex(body_of(result), r'^dlrun -- enroot start( --env [A-Z_]+)+ --mount /a:/b image bash -c "\n')
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"):
            self.assertIn(f" --env {name} ", result.script)
        self.assertNotIn("--env", body_of(of("enroot start image python t.py\n", NODE)))

    def test_what_stands_in_front_of_the_program_does_not_hide_where_learners_meet(self):
        self.assertIn("  NCCL_DEBUG=INFO python3 t.py\n", of(self.TEXT, NODE).script)
        # One that the text itself reads stays.
        body = "srun bash -c 'export MASTER_PORT=1234; A=$MASTER_PORT torchrun --nproc_per_node=4 t.py --port $MASTER_PORT'\n"
        self.assertIn("MASTER_PORT=1234", of(body, NODE).script)


    def test_a_shell_in_a_container_that_reads_its_commands(self):
        for front, behind in (("apptainer exec --nv i.sif bash", ""), ("singularity exec i.sif /bin/bash -l", " || exit 1")):
            result = of(f"{front} <<'END'{behind}\ncd src\npython train.py --a \"$b\"\nEND\necho over\n", NODE)
            self.assertEqual((result.learners, result.gpus), ("1", 4))
            self.assertEqual(body_of(result), f"dlrun --alone -- {front} -c \"$(cat <<'END'\ncd src\npython train.py --a \"$b\"\nEND\n)\"{behind}\necho over\n")
        self.assertIn("\ndlrun --alone -- python t.py\n", of("apptainer exec i.sif bash <<E\nls\nE\npython t.py\n", NODE).script)
        self.assertEqual(of("apptainer exec i.sif bash <<E\nls\nE\n", NODE).launches, 0)

    def test_root_in_the_container_of_srun(self):
        result = of("srun --container-writable --container-remap-root --container-image /x/a.sqsh python t.py\n", NODE + "#SBATCH --ntasks=1\n")
        self.assertEqual(body_of(result), "APPTAINER_WRITABLE_TMPFS=1 APPTAINER_FAKEROOT=1 dlrun --alone --image /x/a.sqsh -- python t.py\n")
        self.assertIn("fakeroot", str(result.notes))


class Meeting(support.Case):
    def test_a_module_of_the_site_that_says_where_ranks_meet(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "t.py"), "w") as file:
                file.write("import torch\nimport idr_torch\n")
            self.assertEqual(body_of(of("srun python t.py\n", NODE + "#SBATCH --ntasks=4\n", folder)), "MASTER_PORT=29500 dlrun -- python t.py\n")


class Memory(support.Case):
    def test_the_cpus_of_the_gpus_have_their_memory_still(self):
        script = of("torchrun --nproc_per_node=2 t.py\n", "#!/bin/bash\n#SBATCH --gres=gpu:2\n#SBATCH --mem-per-cpu=6G\n#SBATCH --cpus-per-gpu=12\n").script
        self.assertIn("#SBATCH --mem-per-cpu=6G\n#SBATCH --cpus-per-task=12\n", script)


class Refused(support.Case):
    def test_the_first_line_is_that_of_a_script(self):
        result = of("torchrun --nproc_per_node=4 t.py\n", "# A licence.\n\n#!/bin/bash\n#SBATCH --gres=gpu:4\n")
        self.assertEqual(result.script, "#!/bin/bash\n# A licence.\n\n#!/bin/bash\n#SBATCH --dl-framework=pytorch --dl-learners=4 --dl-gpus=1\n#SBATCH --nodes=1\ndlrun -- python3 t.py\n")
        self.assertIn("without which sbatch refuses a script", str(result.notes))
        self.assertTrue(of("torchrun --nproc_per_node=4 t.py\n", "#SBATCH --gres=gpu:4\n").script.startswith("#!/bin/bash\n#SBATCH --dl-"))

    def test_a_shell_in_which_somebody_works_stays(self):
        for body in ("srun --gres=gpu:4 --pty bash -i\n", "srun -n1 --pty /bin/zsh\n", "srun --pty $SHELL\n"):
            self.assertEqual(of(body, NODE).launches, 0, body)
        self.assertEqual(body_of(of("srun --ntasks=4 --pty python t.py\n", NODE)), "dlrun -- python t.py\n")


class Servers(support.Case):
    def test_servers_of_a_model_on_several_nodes_are_left_as_they_are(self):
        server = 'srun -N1 -n1 -w $n bash -c "export A=1; python3 -m sglang.launch_server --nnodes 2 --node-rank {}" &\n'
        body = server.format(0) + "for i in 1; do\n  " + server.format("$i") + "done\npython test.py\n"
        result = of(body, NODE.replace("nodes=1", "nodes=2"))
        self.assertEqual((result.launches, result.script), (0, NODE.replace("nodes=1", "nodes=2") + body))
        self.assertIn("this server runs on GPUs of the job", str(result.notes))

    def test_a_training_with_a_server_in_the_same_shell_is_one(self):
        result = of('srun bash -c "vllm serve m & torchrun --nproc_per_node=4 t.py"\n', NODE)
        self.assertEqual(result.learners, "4")


class OneNode(support.Case):
    def test_tasks_of_a_node_without_a_number_of_nodes_are_those_of_one(self):
        head = "#!/bin/bash\n#SBATCH --gres=gpu:4\n#SBATCH --{}=4\n#SBATCH --cpus-per-task=2\n"
        for option, nodes in (("ntasks-per-node", True), ("tasks-per-node", True), ("ntasks", False)):
            result = of("torchrun --nproc_per_node=4 t.py\n", head.format(option))
            self.assertEqual((result.learners, result.gpus, "#SBATCH --nodes=1\n" in result.script), ("4", 1, nodes), option)


class Remarks(support.Case):
    def test_nothing_is_said_of_a_launch_in_a_remark_of_several_lines(self):
        result = of(": <<'END'\nThis runs accelerate launch on t.py.\nEND\ntorchrun --nproc_per_node=4 t.py\n", NODE)
        self.assertEqual((result.learners, result.notes), ("4", []))

    def test_a_signal_that_a_learner_gets_itself_is_not_noted(self):
        for signal, noted in (("SIGUSR1@60", False), ("USR2@90", False), ("R:10@60", False), ("TERM@60", False), ("B:USR1@60", False), ("SIGHUP@30", False), ("15@30", False), ("CONT@60", True)):
            notes = str(of("srun python t.py\n", NODE + f"#SBATCH --signal={signal}\n").notes)
            self.assertEqual(f"--signal={signal}" in notes, noted, signal)


if __name__ == "__main__":
    support.main()
