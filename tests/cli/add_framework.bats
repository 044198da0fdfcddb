#!/usr/bin/env bats
# "To add a framework" of CONTRIBUTING.md, done as it is written: a folder is copied, nothing else is edited.
# shellcheck disable=SC2016  # expanded by the shells of learners
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup() {
  dlrun_setup
  mkdir frameworks
  cp -r "$top_srcdir"/frameworks/*/ frameworks/
  cp -r frameworks/sklearn frameworks/copied
  mv frameworks/copied/sklearn.toml frameworks/copied/copied.toml
  # One whose variables hold addresses of learners, under names of its own.
  cp -r frameworks/paddle frameworks/endpoints
  sed 's/PADDLE_/COPIED_/g' frameworks/endpoints/paddle.toml >frameworks/endpoints/endpoints.toml
  rm frameworks/endpoints/paddle.toml
}

@test "a copied folder is installed with its example, listed, described, and started" {
  make -s -C "$top_builddir" install-frameworks frameworks_folder="$PWD/frameworks" DESTDIR="$PWD/root"
  local entries
  entries=$(dirname "$(find root -name copied.toml)")
  [ -n "$entries" ]
  [ "$(find "$entries" -name '*.toml' | wc -l)" -eq "$(find frameworks -name '*.toml' | wc -l)" ]
  [ -x "$entries/../examples/copied/search_digits.py" ]
  [ ! -e "$entries/../examples/generic" ]

  awk -f "$top_srcdir/man/framework-entries" frameworks/*/*.toml >entries.roff
  grep -qxF '.B copied' entries.roff

  printf '[frameworks]\ncatalogue = ["%s"]\n' "$PWD/$entries" >dl.toml
  run "$top_builddir/launcher/ctl/dlctl" frameworks --no-probe
  contains "$output" '^copied +any '
  run "$dlrun" -f copied -n 2 --job-dir job -- sh -c 'echo "learner $LEARNER_ID of $NUM_LEARNERS"'
  [ "$status" -eq 0 ] || { echo "$output" >&2; false; }
  contains "$output" '^\[1\] learner 2 of 2$'
  mkdir found
  env -0 >found/inherited
  "$dlrun" -f endpoints -n 2 --dry-run --json -- sh -c 'env -0 >found/$DL_RANK' >plan.json
  "$dlrun" -q -f endpoints -n 2 -- sh -c 'env -0 >found/$DL_RANK'
  python3 "$top_srcdir/tests/lib/compare_environment.py" "$entries" plan.json found
  grep -zqE '^COPIED_TRAINER_ENDPOINTS=(127[0-9.]+:[0-9]+),127[0-9.]+:[0-9]+$' found/1

  make -s -C "$top_builddir" uninstall-frameworks frameworks_folder="$PWD/frameworks" DESTDIR="$PWD/root"
  [ -z "$(find root -name '*.toml' -o -name '*.py')" ]
}

# tests/cli/contributing.bats builds and installs a tree with a copied folder, and runs the lint of tables over it.
@test "the tests find a copied folder that lists a package: they train it, and go on from its checkpoint" {
  local folder
  folder=$("$top_srcdir/packaging/install-frameworks" --path)
  [ -e "$folder/complete" ] || skip "there are no current frameworks in $folder (packaging/install-frameworks)"
  mkdir -p tree/checkpoint
  cp -r "$top_srcdir"/{frameworks,packaging,tests} tree/
  # The example looks for the Python package there: a build folder outside the source tree, as that of distcheck, tells dlrun of none.
  cp -r "$top_srcdir/checkpoint/python" tree/checkpoint/
  chmod -R u+w tree
  rm tree/frameworks/*/packages.python
  cp -r "$top_srcdir/frameworks/lightgbm" tree/frameworks/copied
  mv tree/frameworks/copied/lightgbm.toml tree/frameworks/copied/copied.toml
  run env top_srcdir="$PWD/tree" bats --tap -f '^frameworks that name packages' tree/tests/cli/frameworks.bats 3>&-
  [ "$status" -eq 0 ] || { echo "$output" >&2; false; }
  contains "$output" '^ok 1 frameworks that name packages of their own: two learners train the example, one goes on from their checkpoint$'
  # It was this folder that they trained.
  echo 'raise SystemExit("the copied example")' >tree/frameworks/copied/example/train_digits.py
  run env top_srcdir="$PWD/tree" bats --tap -f '^frameworks that name packages' tree/tests/cli/frameworks.bats 3>&-
  contains "$output" 'the copied example'
}

@test "a framework with variables of its own needs no code: they are placeholders in its entry" {
  printf '# Ours.\nsummary = "ours"\nfamilies = ["peers"]\n[environment]\nOURS_ID = "%%{rank}"\nOURS_ALL = "%%{peers}"\nOURS_AT = "%%{peer}"\n' >cat/ours.toml
  OURS_ID=7 OURS_AT=elsewhere run "$dlrun" -f ours -n 2 --job-dir job -- sh -c 'echo "$OURS_ID at $OURS_AT of $OURS_ALL"'
  [ "$status" -eq 0 ] || { echo "$output" >&2; false; }
  contains "$output" '^\[0\] 0 at (127[0-9.]+:[0-9]+) of \1,127[0-9.]+:[0-9]+$'
  contains "$output" '^\[1\] 1 at (127[0-9.]+:[0-9]+) of 127[0-9.]+:[0-9]+,\1$'
}

@test "a program that binds without SO_REUSEADDR gets a port that is let go for it, and not one that is held" {
  printf '# Ours.\nsummary = "ours"\nfamilies = ["peers"]\n' >cat/held.toml
  { cat cat/held.toml; echo 'hold_ports = false'; } >cat/free.toml
  cat >bind.py <<'PY'
import os, socket
own = socket.socket()
own.bind(("", int(os.environ["DL_PORTS"])))
print("bound")
PY
  run "$dlrun" -f free -n 2 --job-dir job -- python3 bind.py
  [ "$status" -eq 0 ] || { echo "$output" >&2; false; }
  contains "$output" '^\[1\] bound$'
  run "$dlrun" -f held -n 1 --restarts 0 --job-dir job2 -- python3 bind.py
  [ "$status" -ne 0 ]
  contains "$output" 'class port'
}
