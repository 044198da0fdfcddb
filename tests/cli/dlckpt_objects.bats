#!/usr/bin/env bats
# dlckpt with an object store: a real S3 server, with and without faults, and a folder that is one.
# shellcheck source=tests/cli/objects_lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/objects_lib.bash"

setup() { objects_setup; }

# checkpoints DIR STEP...: a directory with these, each with other values.
checkpoints() {
  local dir=$1 step
  shift
  for step in "$@"; do
    "$(a_python)" - "$step" <<'END'
import json, struct, sys
values = struct.pack("<20000f", *(float(sys.argv[1]) + i for i in range(20000)))
head = json.dumps({"w": {"dtype": "F32", "shape": [20000], "data_offsets": [0, len(values)]}}).encode()
open("w.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + values)
END
    "$dlckpt" import --safetensors w.safetensors "$dir" --step "$step" >/dev/null
  done
}
# folder_remote: the remote box: is ./box, which needs no server.
folder_remote() {
  command -v rclone >/dev/null || skip "rclone is not installed"
  mkdir -p box
  printf '[box]\ntype = alias\nremote = %s\n' "$PWD/box" >rclone.conf
  chmod 600 rclone.conf
}
# beside WORD...: dlckpt as libdlckpt starts it.
beside() { bash -c '"$@" --beside $$; exit $?' - "$dlckpt" "$@"; }
steps_in() { "$dlckpt" ls "$1" --json | jq -c '[.[] | select(.state == "committed") | .step]'; }

@test "a checkpoint is sent to a bucket, listed and fetched as it was, and a secret is nowhere" {
  object_server
  checkpoints ck 3 7
  watch_words &
  watcher=$!
  RCLONE_BWLIMIT=60k run "$dlckpt" send ck lab:bucket/run # so slowly that it is seen
  [ "$status" -eq 0 ]
  contains "$output" 'train step 7, .* sent to lab:bucket/run'
  [ "$("$dlckpt" send ck lab:bucket/run --json | jq -c '[.sent, .step]')" = '[false,7]' ]
  "$dlckpt" send ck lab:bucket/run --step 3
  run "$dlckpt" ls lab:bucket/run
  [ "$status" -eq 0 ]
  contains "$output" 'committed'
  [ "$(steps_in lab:bucket/run)" = '[7,3]' ]
  [ "$("$dlckpt" fetch lab:bucket/run back --json | jq -r .fetched)" = "$(basename ck/step-000000000007.*)" ]
  "$dlckpt" fetch lab:bucket/run back --step 3
  diff -r --exclude=LATEST --exclude=SAVES.jsonl ck back
  run "$dlckpt" fetch lab:bucket/run back
  [ "$status" -eq 0 ]
  contains "$output" 'in back already'
  touch watched
  wait $watcher
  grep -q 'rclone rcat .*lab:bucket/run/step-' words
  nowhere_planted .
}

@test "a wrong place, a remote that is not configured and an open configuration are refused, each in one sentence" {
  folder_remote
  checkpoints ck 1
  refused() { # STATUS PATTERN WORD...
    local wanted=$1 pattern=$2
    shift 2
    run "$dlckpt" "$@"
    [ "$status" -eq "$wanted" ] && [ "${#lines[@]}" -eq 1 ] && contains "$output" "$pattern"
  }
  refused 2 'connection string' send ck :s3,secret_access_key=pLanTeD:bucket/x
  [ "$(grep -c pLanTeD <<<"$output")" -eq 0 ]
  refused 2 'no PATH' send ck box:
  refused 2 'names no object store' send ck box
  refused 3 'not in your rclone configuration' send ck other:x
  refused 3 'no checkpoint in box:run' fetch box:run back
  [ ! -e back ]
  refused 3 'no checkpoint in box:run' ls box:run
  refused 3 'no checkpoint of train step 5' fetch box:run ck --step 5
  # One that cannot be opened is no empty one: whoever took it for that would train anew.
  printf '[gone]\ntype = alias\nremote = nosuch:x\n' >>rclone.conf
  run beside fetch gone:run back
  [ "$status" -eq 2 ]
  contains "$output" "list gone:run: .*config"
  refused 2 'gone:run' ls gone:run
  chmod 644 rclone.conf
  refused 3 'chmod 600' send ck box:run
  run env PATH=/nowhere "$dlckpt" send ck box:run
  [ "$status" -eq 3 ]
  contains "$output" 'rclone is not installed'
}

@test "send --keep keeps as many there, and those that are pinned here; what a killed sending left goes" {
  folder_remote
  for step in 1 2 3 4; do
    checkpoints ck "$step"
    [ "$step" -ne 1 ] || "$dlckpt" pin ck
    "$dlckpt" send ck box:run --keep 2
    [ "$step" -ne 3 ] || { mkdir box/run/step-000000000002.00000001deadbeef && echo x >box/run/step-000000000002.00000001deadbeef/r00000.h5; }
  done
  [ "$(steps_in box:run)" = '[4,3,1]' ]
  [ ! -e box/run/step-000000000002.00000001deadbeef/r00000.h5 ]
}

pinned_in() { "$dlckpt" ls "$1" --json | jq -c '[.[] | select(.pinned) | .step]'; }

@test "pins outlive the directory: they are in the store with their checkpoints, and retention there keeps to them" {
  folder_remote
  checkpoints ck 1 2 3
  "$dlckpt" pin ck --step 1 --note 'for the paper'
  "$dlckpt" send ck box:run --step 1
  "$dlckpt" send ck box:run --step 2
  [ "$(pinned_in box:run)" = '[1]' ]
  run "$dlckpt" ls box:run
  contains "$output" 'committed, pinned'
  "$dlckpt" pin ck --step 2 # which is there already
  "$dlckpt" send ck box:run --keep 1
  [ "$(steps_in box:run)" = '[3,2,1]' ]
  [ "$(pinned_in box:run)" = '[2,1]' ]
  "$dlckpt" unpin ck --step 2
  "$dlckpt" send ck box:run --keep 1
  [ "$(steps_in box:run)" = '[3,1]' ]
  rm -rf ck
  "$dlckpt" fetch box:run ck
  checkpoints ck 4
  "$dlckpt" send ck box:run --keep 1
  [ "$(steps_in box:run)" = '[4,1]' ]
  "$dlckpt" fetch box:run back --step 1
  [ "$(cat back/step-000000000001.*/PINNED)" = 'for the paper' ]
  [ "$(pinned_in back)" = '[1]' ]
  "$dlckpt" unpin back --step 1
  "$dlckpt" send back box:run --step 1
  [ "$(pinned_in box:run)" = '[]' ]
}

@test "a pin is set and taken back in the store itself, also when the directory is lost, and each other command says what to do" {
  folder_remote
  checkpoints ck 1 2
  "$dlckpt" send ck box:run --step 1
  "$dlckpt" send ck box:run
  name=$(basename ck/step-000000000001.*)
  rm -rf ck
  [ "$("$dlckpt" pin "box:run/$name" --note why --json | jq -c '[.place, .name == "'"$name"'", .step, .pinned]')" = '["box:run",true,1,true]' ]
  [ "$(cat box/run/"$name"/PINNED)" = why ]
  run "$dlckpt" pin box:run
  [ "$status" -eq 0 ]
  contains "$output" '^step-000000000002.*: pinned$'
  "$dlckpt" pin box:run --step 1 # which is pinned: its note stays
  [ "$(cat box/run/"$name"/PINNED)" = why ]
  [ "$(pinned_in box:run)" = '[2,1]' ]
  run "$dlckpt" unpin box:run --step 1
  contains "$output" ': not pinned any more$'
  run "$dlckpt" unpin box:run --step 1
  [ "$status" -eq 0 ]
  contains "$output" ': it was not pinned$'
  [ "$(pinned_in box:run)" = '[2]' ]
  run "$dlckpt" unpin box:run --step 9
  [ "$status" -eq 3 ]
  contains "$output" '^dlckpt: no checkpoint of train step 9 in box:run$'
  run "$dlckpt" pin nobox:run
  [ "$status" -eq 3 ]
  contains "$output" 'not in your rclone configuration'
  for command in show verify 'export --h5 out.h5' gc; do
    # shellcheck disable=SC2086  # several words
    run "$dlckpt" $command box:run
    [ "$status" -eq 3 ]
    contains "$output" 'no directory box:run; if it is a place in an object store, .*: dlckpt fetch box:run DIR$'
  done
}

@test "a file PINNED that is lost from the directory is not taken for an unpin, and one of an older store is no need" {
  folder_remote
  checkpoints ck 1 2
  "$dlckpt" pin ck --step 1
  "$dlckpt" send ck box:run --step 1
  rm ck/step-000000000001.*/PINNED # as a cleaning of old files does
  "$dlckpt" send ck box:run --keep 1
  [ "$(steps_in box:run)" = '[2,1]' ]
  "$dlckpt" unpin ck --step 1
  "$dlckpt" pin ck --step 1
  rm box/run/step-000000000001.*/PINNED # sent by a slurm-dl that knew no pins there
  checkpoints ck 3
  "$dlckpt" send ck box:run --keep 1
  [ "$(steps_in box:run)" = '[3,1]' ]
  [ "$(pinned_in box:run)" = '[1]' ]
}

@test "send --keep succeeds and says so where it may not remove what is older" {
  folder_remote
  checkpoints ck 1 2
  "$dlckpt" send ck box:run --step 1
  chmod 555 box/run/step-000000000001.*
  run without_rights "$dlckpt" send ck box:run --keep 1
  chmod 755 box/run/step-000000000001.*
  [ "$status" -eq 0 ]
  contains "$output" 'dlckpt: older checkpoints in box:run were not removed: .*[Pp]ermission denied'
  contains "$output" 'train step 2, .* sent to box:run'
  [ "$(steps_in box:run)" = '[2,1]' ]
}

# before_reading STEP ACTION: an rclone in ./beside that does this before the manifest of this train step is read.
before_reading() {
  local rclone
  rclone=$(command -v rclone)
  mkdir -p beside
  printf '#!/bin/sh\ncase "$*" in "cat "*/step-%012d.*/MANIFEST.json) %s ;; esac\nexec %s "$@"\n' "$1" "$2" "$rclone" >beside/rclone
  chmod 755 beside/rclone
}

@test "ls leaves out a checkpoint that is removed while it is listed, and shows one that is damaged" {
  object_server
  checkpoints ck 1 2 3
  for step in 1 2 3; do "$dlckpt" send ck lab:bucket/run --step $step; done
  before_reading 2 "rm -rf $PWD/s3/bucket/run/step-000000000002.*; sleep 0.3"
  PATH=$PWD/beside:$PATH run "$dlckpt" ls lab:bucket/run --json
  [ "$status" -eq 0 ]
  [ "$(jq -c 'map([.step, .state])' <<<"$output")" = '[[3,"committed"],[1,"committed"]]' ]
  before_reading 1 "sed -i s/step/stop/ $PWD/s3/bucket/run/step-000000000001.*/MANIFEST.json"
  PATH=$PWD/beside:$PATH run "$dlckpt" ls lab:bucket/run
  [ "$status" -eq 1 ]
  contains "$output" 'damaged'
  contains "$output" 'dlckpt: .*step-000000000001.*MANIFEST.json'
}

@test "send --keep refuses a place of another run, and touches nothing there" {
  folder_remote
  checkpoints long 1 2 3
  "$dlckpt" send long box:run
  checkpoints other 9
  run "$dlckpt" send other box:run --keep 1
  [ "$status" -eq 2 ]
  contains "$output" 'newer than .* and not in other'
  [ "$(steps_in box:run)" = '[3]' ]
}

@test "a damaged object makes fetch take the next older checkpoint" {
  object_server
  checkpoints ck 3 7
  "$dlckpt" send ck lab:bucket/run --step 3
  "$dlckpt" send ck lab:bucket/run
  file=$(echo s3/bucket/run/step-000000000007.*/r00000.h5)
  printf X | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") / 2)) conv=notrunc 2>/dev/null
  run "$dlckpt" fetch lab:bucket/run back
  [ "$status" -eq 0 ]
  contains "$output" 'checksum'
  [ "$(steps_in back)" = '[3]' ]
  run "$dlckpt" fetch lab:bucket/run only --step 7
  [ "$status" -eq 1 ]
  [ "$(steps_in only)" = '[]' ]
  # Beside a training that has an older one it is told of, and so is which is the newest there.
  run beside fetch lab:bucket/run back
  [ "$status" -eq 0 ]
  contains "$output" 'checksum'
  contains "$output" "^ok - $(basename ck/step-000000000007.*)"
}

@test "kill -9 in mid-send commits nothing, and the next one goes on" {
  object_server
  checkpoints ck 5
  RCLONE_BWLIMIT=20k "$dlckpt" send ck lab:bucket/run >out 2>&1 &
  pid=$!
  for _ in $(seq 600); do
    pgrep -f 'rclone rcat .*lab:bucket/run/step' >/dev/null && break
    sleep 0.05
  done
  kill -9 $pid
  wait $pid || true
  for _ in $(seq 100); do
    pgrep -f 'rclone rcat .*lab:bucket/run/step' >/dev/null || break
    sleep 0.1
  done
  [ -z "$(pgrep -f 'rclone rcat .*lab:bucket/run/step')" ]
  [ "$(steps_in lab:bucket/run)" = '[]' ]
  run beside send ck lab:bucket/run # as the library starts it, which is told that bytes move
  [ "$status" -eq 0 ]
  contains "$output" '^moved'
  [ "${lines[-1]}" = ok ]
  "$dlckpt" fetch lab:bucket/run back
  diff -r --exclude=LATEST --exclude=SAVES.jsonl ck back
}

@test "a server that answers 503 and connections that are cut are got over, and one that stays away is told of" {
  object_server
  checkpoints ck 5
  printf '503 2\ncut:30000 1\n503 1\n' >faults
  run "$dlckpt" send ck lab:bucket/run
  [ "$status" -eq 0 ]
  printf 'short:20000 1\n503 2\n' >faults
  run "$dlckpt" fetch lab:bucket/run back
  [ "$status" -eq 0 ]
  diff -r --exclude=LATEST --exclude=SAVES.jsonl ck back
  checkpoints ck 6
  echo 503 >faults
  run "$dlckpt" send ck lab:bucket/run
  [ "$status" -eq 3 ]
  contains "$output" 'lab:bucket/run.*Service ?Unavailable'
  rm faults
  [ "$(steps_in lab:bucket/run)" = '[5]' ]
}
