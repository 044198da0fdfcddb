# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: faults that somebody found who had not written it: numbers of run time, one node, containers of other branches."""
import support
from test_migrate import body_of, of
from test_migrate_fresh import NODE, with_files

GPUS = "#!/bin/bash\n#SBATCH --gres=gpu:4\n"


def lines_of(result):
    return [line for line in result.script.splitlines() if line.startswith("#SBATCH")]


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


class Plain(support.Case):
    def test_a_training_in_a_container_of_another_branch(self):
        body = ('if [ -n "$IMAGE" ]; then\n  {0}apptainer run --nv "$IMAGE" bash -lc "python3 -u -c \'print(1)\' && python3 -u -m pip list && python3 -u -m {1} --c $C"\n'
                'else\n  {0}python3 train_it.py --c $C\nfi\n')
        self.assertEqual(body_of(of(body.format("", "ours.train_it"), NODE)), body.format("dlrun -- ", "ours.train_it"))
        result = body_of(of(body.format("", "ours.evaluate"), NODE))
        self.assertEqual((result.count("dlrun"), "  dlrun -- python3 train_it.py" in result), (1, True))

    def test_a_program_in_a_variable(self):
        for held, word in (('"train_${V}.py"', '"${SCRIPT}"'), ("go.py", "$SCRIPT")):
            self.assertEqual(body_of(of(f"SCRIPT={held}\nfor i in 1 2; do\n  python -u {word} --n $i\ndone\n", NODE)),
                             f"SCRIPT={held}\nfor i in 1 2; do\n  dlrun -- python -u {word} --n $i\ndone\n")
        self.assertEqual(of('SCRIPT="train.txt"\npython $SCRIPT\n', NODE).launches, 0)


if __name__ == "__main__":
    support.main()
