#!/usr/bin/env bats
# dlckpt on checkpoints that share a file (hard links of an earlier one's), that hold files of the program and metrics.

# shellcheck source=tests/lib/jq.bash
source "${top_srcdir:?}/tests/lib/jq.bash"
setup() {
  dlckpt=${top_builddir:?}/checkpoint/dlckpt
  local writer=$top_builddir/tests/unit/checkpoint.t
  [ -x "$writer" ] || skip "libdlckpt or GoogleTest is not there, so nothing can write them"
  a=$BATS_TEST_TMPDIR/a b=$BATS_TEST_TMPDIR/b
  DL_WRITE_PARTS=$a "$writer" --gtest_also_run_disabled_tests --gtest_filter=CheckpointParts.DISABLED_Write >"$BATS_TEST_TMPDIR/log"
  cp -r "$a" "$b"
  one=$(echo "$a"/step-000000000001.*) two=$(echo "$a"/step-000000000002.*) three=$(echo "$a"/step-000000000003.*)
  shared=r00000.f1.h5 member=m00000.0000
}

# damage FILE OFFSET
damage() {
  printf '\377' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

same_as_copy() {
  local file
  for file in "$a"/step-*/*; do cmp "$file" "$b${file#"$a"}"; done
}

@test "checkpoints that share a file and hold files of the program are shown and verified" {
  [ "$(stat -c %h "$three/$shared")" -eq 3 ]
  run "$dlckpt" verify "$a"
  [ "$status" -eq 0 ]
  [ "$(grep -c ': verified' <<<"$output")" -eq 3 ]
  run "$dlckpt" show --tensors "$a"
  [ "$status" -eq 0 ]
  [[ $output == *"unchanged: "*"written by earlier saves, the first at train step 1"* ]]
  [[ $output == *"metrics: loss 0.75"* ]]
  [[ $output == *file*"all ranks"*notes* ]]
  "$dlckpt" show --json "$a" | jq -e '.members == [{"name": "notes", "rank": -1, "file": "m00000.0000", "bytes": 22}]'
  run "$dlckpt" diff "$one" "$three"
  [ "$status" -eq 1 ]
  [[ $output != *model/weights* ]]
}

@test "verify names a member that is damaged, cut off, longer or missing" {
  damage "$three/$member" 5
  run "$dlckpt" verify "$a"
  [ "$status" -eq 1 ]
  [[ $output == *"$(basename "$three"): damaged: $member, bytes 0 to 21: its checksum is wrong (in it: notes)"* ]]
  [ "$(grep -c ': verified' <<<"$output")" -eq 2 ]
  truncate -s 10 "$three/$member"
  run "$dlckpt" verify --quick "$three"
  [ "$status" -eq 1 ]
  [[ $output == *"$member: it has 10 bytes instead of 22"* ]]
  truncate -s 23 "$three/$member"
  run "$dlckpt" verify "$three"
  [ "$status" -eq 1 ]
  rm "$three/$member"
  run "$dlckpt" verify "$three"
  [ "$status" -eq 1 ]
  [[ $output == *"$member: it is missing (in it: notes)"* ]]
  run "$dlckpt" ls "$a"
  [ "$status" -eq 1 ]
}

@test "verify finds damage of a shared file in all that share it, and a foreign one in its place" {
  damage "$three/$shared" 50000
  "$dlckpt" verify --json "$a" >"$BATS_TEST_TMPDIR/out" || [ $? -eq 1 ]
  jq -e 'length == 3 and all(.[]; .verified == false and .damage[0].tensors == ["model/weights"])' "$BATS_TEST_TMPDIR/out"
  cp "$b/$(basename "$three")/$shared" "$BATS_TEST_TMPDIR/good"
  rm "$three/$shared"
  run "$dlckpt" verify "$three"
  [ "$status" -eq 1 ]
  [[ $output == *"$shared: it is missing (in it: model/weights)"* ]]
  cp "$three/r00000.h5" "$three/$shared"
  run "$dlckpt" verify "$three"
  [ "$status" -eq 1 ]
  cp "$BATS_TEST_TMPDIR/good" "$three/$shared"
  run "$dlckpt" verify "$three"
  [ "$status" -eq 0 ] # a copy is as good as a link
}

@test "verify --repair-from mends members and a shared file, in every checkpoint that has it" {
  damage "$two/$member" 5
  rm "$three/$member"
  damage "$one/$shared" 50000
  damage "$one/$shared" 20
  run "$dlckpt" verify --repair-from "$b" "$a"
  [ "$status" -eq 0 ]
  [ "$(grep -c "$shared repaired from" <<<"$output")" -eq 3 ]
  [ "$(grep -c "$member repaired from" <<<"$output")" -eq 2 ]
  same_as_copy
  [ -z "$(find "$a" -name '*.tmp')" ]
  # Damaged in both copies: told, and left as it is.
  damage "$three/$member" 5
  damage "$b/$(basename "$three")/$member" 6
  run "$dlckpt" verify --repair-from "$b" "$a"
  [ "$status" -eq 1 ]
  [[ $output == *"cannot be repaired: $member: bytes 0 to 21 are damaged in both copies"* ]]
}

@test "gc --best keeps the best, and what shares a file outlives the one that wrote it" {
  "$dlckpt" gc --keep 1 --best loss:min:1 --dry-run --json "$a" |
    jq -e '.checkpoints | map([.step, .remove]) == [[3, false], [2, false], [1, true]] and .[1].reason == "one of the best by loss"'
  "$dlckpt" gc --keep 1 --best loss:max:1 --dry-run --json "$a" | jq -e '.checkpoints | map(select(.remove) | .step) == [2, 1]'
  "$dlckpt" gc --keep 1 --best loss:min:2 --dry-run --json "$a" | jq -e '.checkpoints | all(.[]; .remove | not)'
  "$dlckpt" gc --keep 1 --best accuracy:max:1 --dry-run --json "$a" | jq -e '.checkpoints | map(select(.remove) | .step) == [2, 1]'
  run "$dlckpt" gc --keep 1 --best loss:min:1 "$a"
  [ "$status" -eq 0 ]
  [ ! -e "$one" ]
  [ "$(stat -c %h "$three/$shared")" -eq 2 ]
  "$dlckpt" gc --keep 1 "$a"
  [ ! -e "$two" ]
  run "$dlckpt" verify "$a"
  [ "$status" -eq 0 ]
  [ "$(grep -c ': verified' <<<"$output")" -eq 1 ]
  # Damaged, it is no longer the best.
  rm "$b/$(basename "$two")/$member"
  "$dlckpt" gc --keep 1 --best loss:min:1 --verify --dry-run --json "$b" |
    jq -e '.checkpoints | map(select(.remove) | .step) == [2]'
}
