#!/usr/bin/env bats
# dlckpt verify says exactly what is bad, and mends it from another copy; dlckpt diff on copies. On the golden checkpoint.

# shellcheck source=tests/lib/jq.bash
source "${top_srcdir:?}/tests/lib/jq.bash"
setup() {
  dlckpt=${top_builddir:?}/checkpoint/dlckpt
  golden=$(echo "${top_srcdir:?}"/tests/data/checkpoint/v1/step-*)
  name=$(basename "$golden")
  a=$BATS_TEST_TMPDIR/a b=$BATS_TEST_TMPDIR/b
  mkdir "$a" "$b"
  cp -r "$golden" "$a"
  cp -r "$golden" "$b"
  chmod -R u+w "$a" "$b"
}

# damage FILE OFFSET
damage() {
  printf '\377' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

is_golden() {
  for file in MANIFEST.json r00000.h5 r00001.h5; do cmp "$1/$name/$file" "$golden/$file"; done
  [ "$(find "$1/$name" | wc -l)" -eq 4 ] # no temporary file is left
}

@test "verify names file, bytes and tensors of every fault" {
  damage "$a/$name/r00000.h5" 50000
  damage "$a/$name/r00000.h5" 5000
  run "$dlckpt" verify "$a"
  [ "$status" -eq 1 ]
  [[ $output == *"2 faults"* ]]
  [[ $output == *"r00000.h5, bytes 8192 to "*": its checksum is wrong (in it: model/weights)"* ]]
  [[ $output == *"r00000.h5, bytes 4096 to "* ]]
  "$dlckpt" verify --json "$a" >"$BATS_TEST_TMPDIR/out" || [ $? -eq 1 ]
  jq -e '.[0].damage | length == 2 and .[1].tensors == ["model/weights"] and .[1].at == 8192' "$BATS_TEST_TMPDIR/out"
  rm "$a/$name/r00001.h5"
  run "$dlckpt" verify "$a"
  [[ $output == *"r00001.h5: it is missing (in it: "*rows* ]]
}

@test "verify --quick reads no data, --deep looks at values" {
  damage "$a/$name/r00000.h5" 50000
  run "$dlckpt" verify --quick "$a"
  [ "$status" -eq 0 ]
  [[ $output == *"looks sound"* ]]
  damage "$a/$name/r00000.h5" 20
  run "$dlckpt" verify --quick "$a"
  [ "$status" -eq 1 ]
  "$dlckpt" verify --deep --json "$b" | jq -e '.[0].verified and .[0].non_finite == []'
  run "$dlckpt" verify --deep --quick "$b"
  [ "$status" -eq 2 ]
}

@test "verify --repair-from mends data, user block, table, missing file and manifest, bit for bit" {
  damage "$a/$name/r00000.h5" 50000
  damage "$a/$name/r00000.h5" 20
  rm "$a/$name/r00001.h5"
  run "$dlckpt" verify --repair-from "$b" "$a"
  [ "$status" -eq 0 ]
  [[ $output == *"r00000.h5 repaired from $b/$name"*"r00001.h5 repaired"*"verified"* ]]
  is_golden "$a"
  echo '{}' >"$a/$name/MANIFEST.json"
  truncate -s 60000 "$a/$name/r00000.h5"
  "$dlckpt" verify --json --repair-from "$b/$name" "$a" | jq -e '.[0] | .verified and (.repaired | length == 2)'
  is_golden "$a"
}

@test "two damaged copies mend one another where their faults differ" {
  damage "$a/$name/r00000.h5" 50000
  damage "$b/$name/r00000.h5" 5000
  run "$dlckpt" verify --repair-from "$b" "$a"
  [ "$status" -eq 0 ]
  is_golden "$a"
}

@test "what is bad in both copies stays as it is, and is told" {
  damage "$a/$name/r00000.h5" 50000
  damage "$b/$name/r00000.h5" 50001
  cp "$a/$name/r00000.h5" "$BATS_TEST_TMPDIR/before"
  run "$dlckpt" verify --repair-from "$b" "$a"
  [ "$status" -eq 1 ]
  [[ $output == *"cannot be repaired: r00000.h5: bytes 8192 to "*"damaged in both copies"* ]]
  cmp "$a/$name/r00000.h5" "$BATS_TEST_TMPDIR/before"
  [ "$(find "$a/$name" | wc -l)" -eq 4 ]
}

@test "a place of copies that is not there is told, also when nothing is damaged" {
  for place in "$a/nowhere" "$a/$name/MANIFEST.json" "$a/$name/MANIFEST.json/x"; do
    run "$dlckpt" verify --repair-from "$place" "$a"
    [ "$status" -eq 3 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"--repair-from $place: "*"; allowed: a directory with another copy"* ]]
  done
  "$dlckpt" verify --repair-from "$b" "$a"
}

@test "a repair replaces links and pipes in the place of files, and not what they lead to" {
  echo mine >"$BATS_TEST_TMPDIR/mine"
  ln -sf "$BATS_TEST_TMPDIR/mine" "$a/$name/r00000.h5"
  ln -sf "$BATS_TEST_TMPDIR/mine" "$a/$name/MANIFEST.json"
  rm "$a/$name/r00001.h5"
  mkfifo "$a/$name/r00001.h5"
  "$dlckpt" verify --repair-from "$b" "$a"
  is_golden "$a"
  [ "$(find "$a/$name" -type f | wc -l)" -eq 3 ]
  [ "$(cat "$BATS_TEST_TMPDIR/mine")" = mine ]
}

@test "another save is no copy" {
  damage "$a/$name/r00000.h5" 50000
  mv "$b/$name" "$b/step-000000000001.0000000100000000"
  run "$dlckpt" verify --repair-from "$b" "$a"
  [ "$status" -eq 1 ]
  [[ $output == *"no copy of $name in $b"* ]]
  # Nor is one whose name alone was changed.
  mv "$b/step-000000000001.0000000100000000" "$b/$name"
  sed 's/"save_id": "[0-9a-f]*"/"save_id": "0000000100000000"/' "$golden/MANIFEST.json" >"$b/$name/MANIFEST.json"
  rm "$a/$name/MANIFEST.json"
  run "$dlckpt" verify --repair-from "$b" "$a"
  [ "$status" -eq 1 ]
}

@test "diff of equal checkpoints is 0, of what cannot be read 2" {
  run "$dlckpt" diff "$a" "$b/$name"
  [ "$status" -eq 0 ]
  [[ $output == *"5 of 5 equal bit for bit"* ]]
  run "$dlckpt" diff "$a" "$BATS_TEST_TMPDIR/nowhere"
  [ "$status" -eq 2 ]
  run "$dlckpt" diff --select 'x*' "$a" "$b"
  [ "$status" -eq 2 ]
  [[ $output == *"no tensor matches --select 'x*'"* ]]
  damage "$b/$name/r00000.h5" 50000
  run "$dlckpt" diff "$a" "$b"
  [ "$status" -eq 2 ]
  [[ $output == *"r00000.h5"*checksum* ]]
  # The fault is not where these lie.
  run "$dlckpt" diff --select rows --exclude 'model/*' "$a" "$b"
  [ "$status" -eq 0 ]
}
