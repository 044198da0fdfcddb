# shellcheck shell=bash
# SPD-License-Identifier: Apache-2.0
# shellcheck disable=SC2016  # backticks of Markdown
# The commands and files in README.md, for the tests that run them: tests/cli/readme.bats, tests/cluster/readme.bats and
# tests/cluster/quickstart.bats.

readme=${top_srcdir:?}/README.md

# readme_commands: each command in README.md, one per line: the lines of its blocks ```sh without comments, and what stands in
# backticks in the text if it begins with the name of a program and has arguments, or with a folder.
readme_commands() {
  {
    sed -nE '/^```sh$/,/^```$/{/^```/!{s/ +# .*//;/./p}}' "$readme"
    sed -E '/^```/,/^```$/d' "$readme" | grep -oE '`[^`]+`' | tr -d '`' |
      grep -E '^(\./|packaging/|(sbatch|srun|salloc|scontrol|systemctl|make|man|python3|dl[a-z]+|dl-sandbox) +[^ ])'
  } | awk '!seen[$0]++'
}
# from_readme PATTERN: the one command in README.md that matches the glob pattern, with $job in the place of JOB. Call it with the
# pattern in single quotes: tests/cli/readme.bats finds the calls by them.
from_readme() {
  local command
  local -a found=()
  while read -r command; do
    # shellcheck disable=SC2053  # a pattern
    if [[ $command == $1 ]]; then found+=("$command"); fi
  done < <(readme_commands)
  ((${#found[@]} == 1)) || { echo "README.md has ${#found[@]} commands '$1', not one" >&2; return 1; }
  echo "${found[0]//JOB/${job:-JOB}}"
}
# readme_blocks LANGUAGE: the contents of its blocks in that language.
readme_blocks() { sed -nE '/^```'"$1"'$/,/^```$/{/^```/!p}' "$readme"; }

# write_train_py: ./train.py, a program around the training loop in README.md, with arrays of NumPy for a model. It ends after
# $TRAIN_STEPS train steps (20), each of $STEP_TIME seconds (0), and says what it has counted.
write_train_py() {
  {
    cat <<'END'
import os, time
import numpy
model, optimizer, scheduler = {"weights": numpy.zeros(1000)}, {"momentum": numpy.zeros(1000)}, {"rate": numpy.ones(1)}
n_samples, total = 1000, int(os.environ.get("TRAIN_STEPS", 20))
def train_step(samples):
    if model["weights"][0] == 0:
        print("trains", flush=True)
    model["weights"] += 1
    time.sleep(float(os.environ.get("STEP_TIME", 0)))
    return 1.0
END
    readme_blocks python
    echo 'print("done: %d of %d train steps counted" % (model["weights"][0], total), flush=True)'
  } >train.py
}
