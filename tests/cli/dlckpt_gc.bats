#!/usr/bin/env bats
# dlckpt pin, unpin, gc, show and bench. Checkpoints are copies of the golden one under other names where only names count,
# and made by dlckpt import where they must be sound.

# shellcheck source=tests/lib/jq.bash
source "${top_srcdir:?}/tests/lib/jq.bash"
setup() {
  dlckpt=${top_builddir:?}/checkpoint/dlckpt
  cd "$BATS_TEST_TMPDIR" || return 1
}

needs_library() {
  [ -e "$top_builddir/checkpoint/libdlckpt.la" ] || skip "libdlckpt is not built"
}

# Checkpoints of these train steps in the directory c.
make_checkpoints() {
  needs_library
  local header='{"m/a.w":{"dtype":"F32","shape":[500],"data_offsets":[0,2000]},"m/b":{"dtype":"BF16","shape":[500],"data_offsets":[2000,3000]},"o":{"dtype":"I64","shape":[],"data_offsets":[3000,3008]}}'
  printf '%b' "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0" >a.safetensors
  printf '%s' "$header" >>a.safetensors
  head -c 3008 /dev/zero >>a.safetensors
  for step; do "$dlckpt" import --safetensors a.safetensors c --step "$step" >/dev/null; done
}

steps() {
  "$dlckpt" ls --json c | jq -c 'map(.step) | sort'
}

@test "gc without --keep removes leftovers only, and --dry-run nothing" {
  make_checkpoints 1 2
  mkdir -p c/.tmp-step-000000000009.0000000900000000 c/.run-x/y
  touch c/.run-x/y/z "$(echo c/step-000000000001*)/.r00000.h5.0123456789abcdef.tmp"
  run "$dlckpt" gc --dry-run c
  [ "$status" -eq 0 ]
  [ "$(grep -c 'would remove' <<<"$output")" -eq 3 ]
  [ -e c/.run-x/y/z ]
  "$dlckpt" gc --json c | jq -e '(.leftovers | length) == 3 and .checkpoints == []'
  [ "$(steps)" = '[1,2]' ]
  [ -z "$(find c -name '.run*' -o -name '.tmp*' -o -name '*.tmp')" ]
  run "$dlckpt" gc c
  [[ $output == "nothing to remove in c" ]]
}

@test "gc keeps the newest, milestones and what is pinned" {
  make_checkpoints 10 20 30 40 50
  "$dlckpt" pin --step 10 --note 'for the paper' c
  grep -q 'for the paper' c/step-000000000010*/PINNED
  "$dlckpt" pin --step 10 --note 'for the second paper' c
  "$dlckpt" pin --step 10 c
  [ "$(cat c/step-000000000010*/PINNED)" = 'for the second paper' ]
  "$dlckpt" ls --json c | jq -e 'map(select(.pinned) | .step) == [10]'
  run "$dlckpt" show --step 10 c
  [[ $output == *"pinned: retention leaves it alone"* ]]
  "$dlckpt" gc --keep 1 --keep-every 20 --dry-run --json c |
    jq -e '.checkpoints | map(select(.remove) | .step) == [30]'
  [ "$(steps)" = '[10,20,30,40,50]' ]
  run "$dlckpt" gc --keep 1 --keep-every 20 c
  [ "$status" -eq 0 ]
  [ "$(steps)" = '[10,20,40,50]' ]
  "$dlckpt" unpin --step 10 c
  "$dlckpt" gc --keep 2 c
  [ "$(steps)" = '[40,50]' ]
}

@test "gc removes a link in the place of a checkpoint, and not what it leads to" {
  make_checkpoints 10 20
  mkdir mine mine/below
  echo mine >mine/below/file
  mv c/step-000000000010* mine
  ln -s "$PWD/mine/"step-* c
  ln -s "$PWD/mine" c/step-000000000005.0000000100000001
  "$dlckpt" gc --keep 1 c
  [ "$(steps)" = '[20]' ]
  [ -z "$(find c -type l)" ]
  [ "$(cat mine/below/file)" = mine ]
  "$dlckpt" verify --quiet mine
}

@test "gc never counts a damaged checkpoint as kept, nor removes the last good one" {
  make_checkpoints 1 2 3
  rm c/step-000000000003*/r00000.h5
  printf '\377' | dd of="$(echo c/step-000000000002*/r00000.h5)" bs=1 seek=5000 conv=notrunc status=none
  # Its data are read only if asked for.
  "$dlckpt" gc --keep 1 --dry-run --json c | jq -e '.checkpoints | map(select(.remove) | .step) == [1]'
  "$dlckpt" gc --keep 1 --verify c
  [[ $(steps) == *1* ]]
  for i in c/step-*; do rm -f "$i/MANIFEST.json"; done
  before=$(echo c/step-*)
  "$dlckpt" gc --keep 1 c
  [ "$(echo c/step-*)" = "$before" ]
}

@test "gc refuses while a job holds the directory, and wrong command lines" {
  make_checkpoints 1 2
  now=$(($(date +%s) * 1000))
  printf '{"owner": "job 12", "token": "%032d", "host": "elsewhere", "boot_id": "", "pid_namespace": "", "pid": 1, "pid_started": 0, "job_id": "12", "restart": 0, "expiry_s": 3600, "renewed_ms": %d}' 1 "$now" >c/LEASE
  run "$dlckpt" gc --keep 1 c
  [ "$status" -eq 3 ]
  [[ $output == *"job 12"* ]]
  [ "$(steps)" = '[1,2]' ]
  rm c/LEASE
  for line in gc 'gc --keep 0 c' 'gc --keep-every 5 c' 'gc --keep 1 --best loss c' 'gc --keep x c' 'pin' 'pin --step -1 c'; do
    # shellcheck disable=SC2086
    run "$dlckpt" $line
    [ "$status" -eq 2 ] || { echo "$line: $status"; false; }
  done
  run "$dlckpt" gc --keep 1 --best loss:min --dry-run c # one, if no number is given
  [ "$status" -eq 0 ]
  run "$dlckpt" pin --step 7 c
  [ "$status" -eq 3 ]
  run "$dlckpt" gc nowhere
  [ "$status" -eq 3 ]
}

@test "show draws a tree of sizes" {
  make_checkpoints 1
  run "$dlckpt" show c
  [ "$status" -eq 0 ]
  [[ $output == *"  m/ "*"###"*"2 tensors  bfloat16 float32"* ]]
  [[ $output == *"    m/a. "*"1 tensor  float32"* ]]
  run "$dlckpt" show --depth 1 c
  [[ $output != *"m/a."* ]]
  "$dlckpt" show --json --depth 3 c | jq -e '.groups | map([.level, .group, .bytes]) ==
    [[0, "m/", 3000], [1, "m/a.", 2000], [2, "m/a.w", 2000], [1, "m/b", 1000], [0, "o", 8]]'
}

@test "bench measures, says shares, and leaves nothing behind" {
  needs_library
  mkdir d
  "$dlckpt" bench d --size 8M --tensors 3 --rounds 1 --json | jq -e '.bytes == 8388608 and .save_durable_of_disk > 0 and
    .restore_of_disk > 0 and .save_blocked_in_memcpys > 0 and .disk_write.median_s > 0'
  [ -z "$(ls -A d)" ]
  for line in 'd --size 1K' 'd --size x' 'd --rounds 0' 'd --size 8M --tensors 100000' ''; do
    # shellcheck disable=SC2086
    run "$dlckpt" bench $line
    [ "$status" -eq 2 ] || { echo "$line: $status"; false; }
  done
  run "$dlckpt" bench d --size 1000T
  [ "$status" -eq 3 ]
  [[ $output == *"are free"*"are needed"* ]]
  run "$dlckpt" bench nowhere
  [ "$status" -eq 3 ]
}
