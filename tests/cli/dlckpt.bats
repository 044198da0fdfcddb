#!/usr/bin/env bats
# dlckpt as a user types it, on the golden checkpoint and on copies of it that are damaged.

# shellcheck source=tests/lib/jq.bash
source "${top_srcdir:?}/tests/lib/jq.bash"
setup() {
  dlckpt=${top_builddir:?}/checkpoint/dlckpt
  dir=$BATS_TEST_TMPDIR/ckpt
  mkdir -p "$dir"
  cp -r "${top_srcdir:?}"/tests/data/checkpoint/v1/step-* "$dir"
  chmod -R u+w "$dir"
  name=$(basename "$dir"/step-*)
}

@test "dlckpt --help and --version answer, and every command has help" {
  run "$dlckpt" --help
  [ "$status" -eq 0 ]
  [[ $output == *verify* ]]
  run "$dlckpt" --version
  [ "$status" -eq 0 ]
  for command in ls show verify diff export import fork send fetch gc pin unpin bench; do
    run "$dlckpt" "$command" --help
    [ "$status" -eq 0 ]
  done
}

@test "dlckpt refuses a wrong command line with status 2" {
  for line in '' 'nonsense' 'ls' 'verify' 'show --step -1 x' 'show --step x y' 'ls --nonsense x' 'show --depth 0 x'; do
    # shellcheck disable=SC2086
    run "$dlckpt" $line
    [ "$status" -eq 2 ] || { echo "$line: $status"; false; }
    [ -n "$output" ]
  done
}

@test "dlckpt ls lists a checkpoint, as text and as JSON" {
  run "$dlckpt" ls "$dir"
  [ "$status" -eq 0 ]
  [[ ${lines[1]} == *committed*$name ]]
  "$dlckpt" ls --json "$dir" | jq -e '.[0] | .step == 1 and .state == "committed" and .ranks == 2 and .bytes > 90000'
}

@test "dlckpt show describes it, by directory, by name and with a slash behind" {
  for path in "$dir" "$dir/" "$dir/$name" "$dir/$name/"; do
    run "$dlckpt" show --tensors "$path"
    [ "$status" -eq 0 ]
    [[ $output == *"train step 1, "*" by 2 ranks"* ]]
    [[ $output == *model/weights* ]]
  done
  cd "$dir/$name/.."
  run "$dlckpt" show "$name"
  [ "$status" -eq 0 ]
  "$dlckpt" show --json "$dir" | jq -e '(.tensors | map(select(.path == "rows"))[0] | .shape == [10, 3] and .shards == 2)
    and (.groups | map(.group) | index("model/") != null) and .blobs[0].path == "data/cursor"'
}

@test "a link to a checkpoint is that checkpoint, and so is the full stop in it" {
  ln -s "$dir/$name" "$BATS_TEST_TMPDIR/best"
  cd "$dir/$name"
  for path in "$BATS_TEST_TMPDIR/best" "$BATS_TEST_TMPDIR/best/" . ./; do
    for command in show verify ls pin unpin; do
      run "$dlckpt" "$command" "$path"
      [ "$status" -eq 0 ] || { echo "$command $path: $output"; false; }
      [[ $output == *"$name"* ]]
    done
  done
  run "$dlckpt" gc --dry-run .
  [ "$status" -eq 2 ]
  [[ $output == *"one checkpoint"* ]]
}

@test "dlckpt fork and import make no directory of checkpoints in a checkpoint" {
  run "$dlckpt" fork "$dir" "$dir/$name"
  [ "$status" -eq 2 ]
  [[ $output == *"$name is one checkpoint; allowed: a checkpoint directory, such as $dir, of which this is train step 1"* ]]
  run "$dlckpt" import --safetensors x "$dir/$name/" --step 2
  [ "$status" -eq 2 ]
  [ ! -e "$dir/$name/LEASE" ]
  [ -z "$(find "$dir/$name" -mindepth 1 -type d)" ]
}

@test "dlckpt verify judges without libhdf5" {
  run "$dlckpt" verify "$dir"
  [ "$status" -eq 0 ]
  [[ $output == *"$name: verified"* ]]
  run "$dlckpt" verify --quiet "$dir/$name"
  [ "$status" -eq 0 ]
  [ -z "$output" ]
  if command -v ldd >/dev/null; then
    program=$dlckpt
    [ -x "$top_builddir/checkpoint/.libs/dlckpt" ] && program=$top_builddir/checkpoint/.libs/dlckpt
    run ldd "$program"
    [[ $output != *hdf5* ]]
  fi
}

@test "dlckpt says what is damaged with status 1" {
  printf X | dd of="$dir/$name/r00000.h5" bs=1 seek=50000 conv=notrunc status=none
  run "$dlckpt" verify "$dir"
  [ "$status" -eq 1 ]
  [[ $output == *"$name: damaged:"*"r00000.h5"*checksum* ]]
  "$dlckpt" verify --json "$dir" >"$BATS_TEST_TMPDIR/out" || true
  jq -e '.[0].verified == false and (.[0].reason | contains("checksum"))' "$BATS_TEST_TMPDIR/out"
  # ls looks at no data, so it does not see that; a missing file it sees.
  run "$dlckpt" ls "$dir"
  [ "$status" -eq 0 ]
  rm "$dir/$name/r00001.h5"
  run "$dlckpt" ls "$dir"
  [ "$status" -eq 1 ]
  [[ $output == *damaged* ]]
  run "$dlckpt" show "$dir"
  [ "$status" -eq 1 ]
}

@test "dlckpt survives every kind of rubbish in a checkpoint" {
  for file in MANIFEST.json r00000.h5; do
    for content in '' '{}' '[[[[[[' 'DLCKPTH5'; do
      cp -r "$dir/$name" "$BATS_TEST_TMPDIR/saved"
      printf '%s' "$content" >"$dir/$name/$file"
      for command in verify show ls; do
        run "$dlckpt" "$command" "$dir"
        [ "$status" -eq 1 ]
      done
      rm -r "${dir:?}/$name"
      mv "$BATS_TEST_TMPDIR/saved" "$dir/$name"
    done
  done
}

@test "a FIFO in the place of a file is refused and not waited for" {
  for file in MANIFEST.json r00000.h5; do
    mv "$dir/$name/$file" "$dir/$name/$file.away"
    mkfifo "$dir/$name/$file"
    for line in "ls $dir" "show $dir" "verify $dir" "diff $dir $dir" "export --h5 $dir/out.h5 $dir" "pin $dir" "gc --keep 1 $dir"; do
      # shellcheck disable=SC2086
      run timeout -k 1 10 "$dlckpt" $line
      [ "$status" -ne 124 ] || { echo "$line waits for $file"; false; }
      [ "$status" -lt 126 ]
    done
    rm "$dir/$name/$file"
    mv "$dir/$name/$file.away" "$dir/$name/$file"
  done
  for file in LEASE SAVES.jsonl; do
    rm -f "$dir/$file"
    mkfifo "$dir/$file"
    run timeout -k 1 10 "$dlckpt" gc --keep 1 "$dir"
    [ "$status" -ne 124 ] || { echo "gc waits for $file"; false; }
    run timeout -k 1 10 "$dlckpt" ls "$dir"
    [ "$status" -eq 0 ]
    rm -f "$dir/$file"
  done
  mkfifo "$BATS_TEST_TMPDIR/in.safetensors"
  run timeout -k 1 10 "$dlckpt" import "$BATS_TEST_TMPDIR/in.safetensors" "$dir"
  [ "$status" -ne 124 ]
}

@test "dlckpt fork links a checkpoint into another directory and copies nothing" {
  run "$dlckpt" fork "$dir" "$BATS_TEST_TMPDIR/fork"
  [ "$status" -eq 0 ]
  [[ $output == *"train step 1, "*"nothing copied" ]]
  for file in r00000.h5 r00001.h5; do
    [ "$dir/$name/$file" -ef "$BATS_TEST_TMPDIR/fork/$name/$file" ]
  done
  run "$dlckpt" verify --deep "$BATS_TEST_TMPDIR/fork"
  [ "$status" -eq 0 ]
  [ ! -e "$BATS_TEST_TMPDIR/fork/LEASE" ]
  "$dlckpt" fork --json --step 1 "$dir/$name" "$BATS_TEST_TMPDIR/other" | jq -e '.step == 1 and .files == 2'
  # The source may go.
  rm -r "$dir"
  run "$dlckpt" verify --deep "$BATS_TEST_TMPDIR/fork"
  [ "$status" -eq 0 ]
}

@test "dlckpt fork refuses a directory that holds checkpoints, a damaged source and another file system" {
  run "$dlckpt" fork "$dir" "$dir"
  [ "$status" -eq 2 ]
  [[ $output == *"holds checkpoints already"* ]]
  run "$dlckpt" fork "$dir" "$BATS_TEST_TMPDIR/no/parent"
  [ "$status" -eq 3 ]
  run "$dlckpt" fork --step 7 "$dir" "$BATS_TEST_TMPDIR/fork"
  [ "$status" -eq 3 ]
  [ ! -e "$BATS_TEST_TMPDIR/fork" ]
  if [ -d /dev/shm ] && [ -w /dev/shm ] && [ "$(stat -c %d /dev/shm)" != "$(stat -c %d "$dir")" ]; then
    other=$(mktemp -d /dev/shm/dlckpt-test-XXXXXX)
    run "$dlckpt" fork "$dir" "$other"
    left=$(find "$other" -mindepth 1 ! -name LATEST)
    rm -r "$other"
    [ "$status" -eq 3 ]
    [[ $output == *"another file system"* ]]
    [ -z "$left" ]
  fi
  truncate -s 100 "$dir/$name/r00000.h5"
  run "$dlckpt" fork "$dir" "$BATS_TEST_TMPDIR/fork"
  [ "$status" -eq 1 ]
  [ ! -e "$BATS_TEST_TMPDIR/fork" ]
}

@test "dlckpt says with status 3 that there is nothing" {
  mkdir "$BATS_TEST_TMPDIR/empty"
  for command in ls show verify; do
    run "$dlckpt" "$command" "$BATS_TEST_TMPDIR/empty"
    [ "$status" -eq 3 ]
    run "$dlckpt" "$command" "$BATS_TEST_TMPDIR/nowhere"
    [ "$status" -eq 3 ]
    [[ $output == *nowhere* ]]
  done
  run "$dlckpt" show --step 7 "$dir"
  [ "$status" -eq 3 ]
  [[ $output == *"train step 7"* ]]
  run "$dlckpt" ls --json "$BATS_TEST_TMPDIR/empty"
  [ "$status" -eq 0 ]
  [ "$output" = '[]' ]
}

@test "dlckpt ls shows an unfinished save" {
  mkdir "$dir/.tmp-step-000000000002.0000000200000000"
  run "$dlckpt" ls "$dir"
  [ "$status" -eq 0 ]
  [[ $output == *unfinished*.tmp-step-000000000002* ]]
}

@test "dlckpt tells when its output cannot be written" {
  [ -c /dev/full ] || skip "no /dev/full"
  run sh -c '"$1" ls "$2" >/dev/full' sh "$dlckpt" "$dir"
  [ "$status" -eq 3 ]
}

@test "dlckpt says in plain words that a directory is not there, or is none" {
  cd "$BATS_TEST_TMPDIR"
  echo x >file
  for command in ls show verify pin unpin 'gc --keep 1' bench 'export --h5 x.h5'; do
    # shellcheck disable=SC2086
    run "$dlckpt" $command nowhere
    [ "$status" -eq 3 ]
    [[ $output == *"there is no directory nowhere"* ]] || { echo "$command: $output"; false; }
    # shellcheck disable=SC2086
    run "$dlckpt" $command file
    [ "$status" -eq 3 ]
    [[ $output == *"file is not a directory; allowed: a checkpoint directory"* ]] || { echo "$command: $output"; false; }
  done
  run "$dlckpt" diff nowhere "$dir"
  [ "$status" -eq 2 ]
  [[ $output == *"there is no directory nowhere"* ]]
  [ "$(ls)" = "$(printf 'ckpt\nfile')" ]
}

@test "dlckpt gc wants the directory, and leaves a checkpoint alone that is named instead" {
  before=$(find "$dir" | sort)
  run "$dlckpt" gc --keep 1 "$dir/$name"
  [ "$status" -eq 2 ]
  [[ $output == *"is one checkpoint; allowed: the checkpoint directory, $dir"* ]]
  [ "$(find "$dir" | sort)" = "$before" ]
}

@test "dlckpt unpin says whether it was pinned" {
  run "$dlckpt" unpin "$dir"
  [ "$status" -eq 0 ]
  [[ $output == *"it was not pinned"* ]]
  "$dlckpt" pin "$dir"
  run "$dlckpt" unpin "$dir"
  [[ $output == *"not pinned any more"* ]]
}

@test "dlckpt passes over what another program keeps in a directory" {
  mkdir "$BATS_TEST_TMPDIR/other"
  touch "$BATS_TEST_TMPDIR/other/epoch-1.pt"
  mkdir "$BATS_TEST_TMPDIR/other/step-5"
  run "$dlckpt" verify "$BATS_TEST_TMPDIR/other"
  [ "$status" -eq 3 ]
  [[ $output == *"no committed checkpoint in"* ]]
  run "$dlckpt" gc --keep 1 "$BATS_TEST_TMPDIR/other"
  [ "$status" -eq 0 ]
  [ -e "$BATS_TEST_TMPDIR/other/epoch-1.pt" ]
  [ -d "$BATS_TEST_TMPDIR/other/step-5" ]
}

# Three saves in the directory c; the file of the program differs in the last.
save_with_files() {
  [ -e "$top_builddir/checkpoint/.libs/libdlckpt.so.1" ] || skip "libdlckpt is not built"
  PYTHONPATH=$top_srcdir/checkpoint/python DLCKPT_LIBRARY=$top_builddir/checkpoint/.libs/libdlckpt.so.1 PYTHONDONTWRITEBYTECODE=1 \
    python3 - "$BATS_TEST_TMPDIR" <<'END' || skip "python3 cannot load the library"
import ctypes, sys
import dlckpt
folder = sys.argv[1]
memory = (ctypes.c_float * 6)(*range(6))
for step, text in ((1, "same"), (2, "same"), (3, "else")):
    with open(folder + "/own.txt", "w") as file:
        file.write(text)
    with dlckpt.Context(folder + "/c", rank=0, world_size=1, keep=9) as context:
        context.tensor("w", "float32", (2, 3), ctypes.addressof(memory), owner=memory)
        context.blob("cursor", b"1")
        context.member("own", folder + "/own.txt")
        context.save(step)
END
}

@test "files of the program count in show, diff, export and ls" {
  save_with_files
  cd "$BATS_TEST_TMPDIR"
  run "$dlckpt" show c
  [ "$status" -eq 0 ]
  [[ $output == *"in 2 files, 1 tensors, 1 blobs, 1 file of the program"* ]]
  run "$dlckpt" diff --step-a 1 --step-b 2 c c
  [ "$status" -eq 0 ]
  [[ $output == *"3 of 3 equal"* ]]
  run "$dlckpt" diff --step-a 2 --step-b 3 c c
  [ "$status" -eq 1 ]
  [[ $output == *"differs"*own*file*"2 of 3 equal"* ]]
  "$dlckpt" diff --json --step-a 2 --step-b 3 c c >out || true
  jq -e '.rows | map(select(.kind == "file"))[0] | .path == "own" and .state == "differs"' out
  run "$dlckpt" diff --select w --step-a 2 --step-b 3 c c
  [ "$status" -eq 0 ]
  run "$dlckpt" export c --h5 x.h5
  [ "$status" -eq 0 ]
  [[ $output == *"left out: 1 blob and 1 file of the program"* ]]
  # Damage of the same length is found where the bytes are read, another length at once.
  file=$(echo c/step-000000000002.*/m00000.0000)
  printf 'SAME' >"$file"
  run "$dlckpt" diff --step-a 1 --step-b 2 c c
  [ "$status" -eq 2 ]
  [[ $output == *m00000.0000* ]]
  printf 'longer' >"$file"
  run "$dlckpt" ls c
  [ "$status" -eq 1 ]
  [[ $output == *"it has 6 bytes instead of 4"* ]]
}
