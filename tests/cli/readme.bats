#!/usr/bin/env bats
# What README.md and the guide say: every command in the README is run by a test, here or on a cluster
# (tests/cluster/readme.bats, tests/cluster/quickstart.bats); links lead somewhere; pictures and tables are those of the recorded runs.
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/lib/readme.bash
source "$top_srcdir/tests/lib/readme.bash"

# PATTERN|REASON: the commands that no test takes from the README, and why.
exceptions='./run-tests|is what runs this test
packaging/build-packages|takes as long as a build; tests/packaging/make runs it, and tests/packaging/run tries what it made
./bootstrap && *|packaging/build-tree runs these programs before every test, and tests/cli/packaging.bats runs make install-strip
systemctl enable *|needs systemd; tests/cluster/reclaim.bats starts dlpolicyd and has it lend and take back
dlctl top|tests/cli/top.bats and tests/cluster/dlctl.bats run it on a terminal'

# The built programs by their names, a configuration, and a program to train.
setup() {
  local program
  dlrun_setup
  mkdir bin
  for program in launcher/dlrun launcher/ctl/dlctl checkpoint/dlckpt slurm-plugin/sim/dlsim; do
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$top_builddir/$program" >"bin/${program##*/}"
    chmod +x "bin/${program##*/}"
  done
  # The python3 of the README is Debian's, whatever else comes first in PATH.
  if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then ln -s /usr/bin/python3 bin/python3; fi
  PATH=$PWD/bin:$PATH
  export DL_PYTHON_FOLDER=$top_srcdir/launcher/python
  export PYTHONPATH=$top_srcdir/checkpoint/python PYTHONDONTWRITEBYTECODE=1 DLCKPT_LIBRARY=$top_builddir/checkpoint/.libs/libdlckpt.so.1
}

@test "each command in README.md is taken from there by a test, or has a reason not to be" {
  local command pattern found
  mapfile -t patterns < <(
    sed -nE "s/.*from_readme '([a-z.][^']+)'.*/\\1/p" "$BATS_TEST_FILENAME" "$top_srcdir"/tests/cluster/{readme,quickstart}.bats
    cut -d'|' -f1 <<<"$exceptions"
  )
  mapfile -t commands < <(readme_commands)
  printf '%s\n' "${commands[@]}"
  ((${#commands[@]} > 15))
  for command in "${commands[@]}"; do
    found=no
    # shellcheck disable=SC2053  # a pattern
    for pattern in "${patterns[@]}"; do [[ $command != $pattern ]] || found=yes; done
    [ $found = yes ] || { echo "no test runs: $command"; return 1; }
  done
  for pattern in "${patterns[@]}"; do from_readme "$pattern" >/dev/null; done
}

@test "the curve and the page of a job come by the commands in README.md" {
  # shellcheck disable=SC2016  # the script of the learner expands there
  dlrun -f generic --job-dir "$PWD/digits" -- sh -c 'for i in 1 2 3; do echo "step $i: loss=0.$i"; done' >out.txt 2>&1
  # shellcheck disable=SC2034  # from_readme puts it in the place of JOB
  job=$PWD/digits
  contains "$(bash -c "$(from_readme 'dlctl metrics JOB*')")" 'train: last 0.3 at 3'
  bash -c "$(from_readme 'dlctl report JOB')"
  grep -q '<figcaption>loss</figcaption>' dl-report-*.html
}

@test "the training loop in README.md saves on this machine, and the same line resumes it" {
  [ -e "$DLCKPT_LIBRARY" ] || skip "built without HDF5"
  python3 -c 'import numpy' 2>/dev/null || skip "python3 has no NumPy"
  write_train_py
  line=$(from_readme 'dlrun --learners 4 *')
  export STEP_TIME=0.1 TRAIN_STEPS=2000
  bash -c "exec $line" >first.out 2>&1 </dev/null 3>&- &
  wait_grep '^\[0\] trains' first.out
  kill -INT $!
  wait $! || true
  cat first.out
  grep -qE 'dlckpt: stopping at train step [0-9]+, saved' first.out
  stopped=$(sed -nE 's/.*dlckpt: stopping at train step ([0-9]+), saved.*/\1/p' first.out | head -n 1)
  export STEP_TIME=0 TRAIN_STEPS=$((stopped + 20))
  run bash -c "$line" </dev/null
  [ "$status" -eq 0 ]
  contains "$output" "dlckpt: resumed at train step $stopped"
  for rank in 0 1 2 3; do contains "$output" "^\[$rank\] done: $TRAIN_STEPS of $TRAIN_STEPS train steps counted"; done
  run bash -c "$(from_readme 'dlckpt ls *')"
  [ "$status" -eq 0 ]
  contains "$output" " *$TRAIN_STEPS "
  run bash -c "$(from_readme 'dlckpt verify *')"
  [ "$status" -eq 0 ]
}

@test "after the two lines python3 train.py works by itself in a virtual environment, once dlctl python --install was typed" {
  [ -e "$DLCKPT_LIBRARY" ] || skip "built without HDF5"
  python3 -c 'import numpy, ensurepip' 2>/dev/null || skip "python3 has no NumPy, or makes no virtual environments"
  write_train_py
  python3 -m venv --system-site-packages --without-pip env
  # shellcheck source=/dev/null
  source env/bin/activate
  unset PYTHONPATH
  run python3 train.py
  [ "$status" -ne 0 ]
  contains "$output" "No module named 'dlckpt'"
  # What is installed is told by the programs of the build; here the module lies in the sources.
  run bash -c "$(from_readme 'dlctl python --install')"
  [ "$status" -eq 0 ]
  contains "$output" 'wrote .*/env/lib/.*/slurm-dl.pth: .*/env/bin/python3 finds dlckpt and dl'
  echo "$top_srcdir/checkpoint/python" >"$(echo env/lib/python3*/site-packages/slurm-dl.pth)"
  run bash -c "$(from_readme 'python3 train.py')"
  echo "$output"
  [ "$status" -eq 0 ]
  contains "$output" 'done: 20 of 20 train steps counted'
  run dlctl python --remove
  [ "$status" -eq 0 ]
  run python3 train.py
  [ "$status" -ne 0 ]
}

@test "a script with torchrun becomes one with dlrun by dlctl migrate" {
  printf '#!/bin/bash\n#SBATCH --nodes=2 --gres=gpu:2\nsrun torchrun --nnodes=2 --nproc_per_node=2 train.py\n' >SCRIPT.sh
  run bash -c "$(from_readme 'dlctl migrate *')"
  [ "$status" -eq 0 ]
  contains "$output" '^\+#SBATCH --dl-framework=pytorch --dl-learners=4 --dl-gpus=1$'
  contains "$output" '^\+dlrun -- python3 train.py$'
  [ "$(DL_PYTHON_FOLDER=/nowhere dlctl migrate SCRIPT.sh 2>&1)" = "dlctl migrate: /nowhere/dl is not there: slurm-dl is not installed as a whole" ]
}

@test "dl.toml in README.md is right, and dlctl config check says so" {
  readme_blocks toml >dl.toml
  grep -q '^\[tenants.vision\]' dl.toml
  # make check runs before anything is installed, so there is no catalogue where dlctl looks for it.
  printf '[frameworks]\ncatalogue = ["%s"]\n' "$top_srcdir/frameworks/generic" >>dl.toml
  run bash -c "$(from_readme 'dlctl config check')"
  echo "$output"
  [ "$status" -eq 0 ]
}

@test "the guide's example of dlsim runs with dl.toml in README.md" {
  local line
  readme_blocks toml >dl.toml
  mapfile -t lines < <(sed -nE 's/^    (dlsim .*)/\1/p' "$top_srcdir/man/guide/admins.md")
  ((${#lines[@]} == 2))
  for line in "${lines[@]}"; do
    run bash -c "$line"
    echo "$output"
    [ "$status" -eq 0 ]
  done
  contains "$output" '^lend .*'
  contains "$output" 'vision'
}

@test "dlctl lists the frameworks" {
  run bash -c "$(from_readme 'dlctl frameworks')"
  [ "$status" -eq 0 ]
  contains "$output" '^pytorch '
}

@test "README.md has at most 150 lines, pages of the guide 200, and their links lead to files" {
  local page link
  cd "$top_srcdir"
  [ "$(wc -l <README.md)" -le 150 ]
  for page in README.md man/guide/*.md; do
    [ "$(wc -l <"$page")" -le 200 ] || { echo "$page is longer than 200 lines"; return 1; }
    while read -r link; do
      [ -e "$(dirname "$page")/$link" ] || { echo "$page: $link is not there"; return 1; }
    done < <(grep -oE '\]\([^)#]+\)' "$page" | sed -E 's/^\]\(//; s/\)$//' | grep -v '^http')
  done
  for page in man/guide/*; do
    [[ $page == man/guide/__pycache__ ]] || grep -qF "%D%/guide/${page##*/}" man/Makefile.inc || { echo "$page is not in man/Makefile.inc"; return 1; }
  done
}

@test "the pictures and tables are those of the recorded runs" {
  local page row
  cp "$top_srcdir/man/guide/story.py" "$top_srcdir/man/guide/story.json" .
  python3 story.py
  cmp story.svg "$top_srcdir/man/guide/story.svg"
  python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' story.svg
  for page in README.md man/guide/benchmarks.md; do
    mapfile -t rows < <(sed -n '/^<!-- bench-checkpoint begin/,/^<!-- bench-checkpoint end/p' "$top_srcdir/$page" | grep -E '^\| .*(met|missed)')
    ((${#rows[@]} >= 6))
    for row in "${rows[@]}"; do
      grep -qxF "$row" "$top_srcdir/tests/bench/checkpoint/results/table.md" || { echo "$page: not in the recorded table: $row"; return 1; }
    done
  done
}
