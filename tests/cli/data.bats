#!/usr/bin/env bats
# dl-data with paths: what is fetched, kept, mended, refused and stored. Remotes and web servers: data_servers.bats.
# shellcheck disable=SC2119,SC2154  # fetch takes options where a test has some; bats sets $stderr
# shellcheck source=tests/cli/data_lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/data_lib.bash"

bats_require_minimum_version 1.5.0

setup() { data_setup; }

# make_tree DIR: files of several kinds.
make_tree() {
  mkdir -p "$1/a/b c" "$1/empty"
  seq 1 1000 >"$1/a/numbers"
  printf 'ä' >"$1/a/b c/-odd *name"
  : >"$1/nothing"
  printf '#!/bin/sh\n' >"$1/run" && chmod 755 "$1/run"
}

@test "a tree is fetched as it is, and the second job fetches no byte" {
  make_tree src
  sources "$PWD/src"
  run fetch
  [ "$status" -eq 0 ]
  diff -r src data
  [ -L data ]
  [ -x data/run ]
  [ ! -x data/a/numbers ]
  [ "$(jq -r .state progress.json)" = "done" ]
  [ "$(jq '.bytes == .total and .files == 4 and .fetched == .total and .resumed == 0' progress.json)" = true ]
  rm data
  run fetch
  [ "$status" -eq 0 ]
  diff -r src data
  [ "$(jq '[.fetched, .bytes == .total, .resumed == .total]' progress.json -c)" = '[0,true,true]' ]
}

@test "several sources get folders of their own, and a path with cache=none is read where it lies" {
  make_tree src
  mkdir other && echo x >other/file && echo y >single
  jq -n --arg a "$PWD/src" --arg b "$PWD/other" --arg c "$PWD/single" '{version:1,sources:[{from:$a,to:"train/x"},{from:$b,to:"other",cache:"none"},{from:$c,to:"one"}]}' >sources.json
  run fetch
  [ "$status" -eq 0 ]
  diff -r src data/train/x
  [ "$(readlink data/other)" = "$PWD/other" ]
  [ "$(cat data/one/single)" = y ]
}

@test "what has changed in the source is fetched, the rest is linked, and a job that holds the old set keeps it" {
  make_tree src
  sources "$PWD/src"
  fetch
  old=$(readlink data)
  echo more >>src/a/numbers
  rm src/run
  run fetch
  [ "$status" -eq 0 ]
  diff -r src data
  [ "$(jq .fetched progress.json)" -eq "$(stat -c %s src/a/numbers)" ]
  [ -x "$old/run" ]
  [ "$(tail -n 1 "$old/a/numbers")" = 1000 ]
}

@test "where the user's folder of the cache is somebody else's, no link of a job is put there" {
  mkdir src cache elsewhere && echo x >src/file
  jq -n --arg a "$PWD/src" '{version:1,sources:[{from:$a,to:"x",cache:"none"}]}' >sources.json
  own=$PWD/cache/$(id -u)
  in_own() { "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$own/jobs/7"; }
  ln -s "$PWD/elsewhere" "$own"
  run in_own
  [ "$status" -eq 74 ]
  contains "$output" "is not a folder of this user"
  [ -z "$(ls elsewhere)" ]
  rm "$own"
  if [ "$(id -u)" -eq 0 ]; then
    mkdir "$own" && chown 12345 "$own"
    run in_own
    [ "$status" -eq 74 ]
    [ -z "$(ls "$own")" ]
    rmdir "$own"
  fi
  run in_own
  [ "$status" -eq 0 ]
  [ "$(stat -c %a "$own")" = 700 ]
  [ "$(cat "$own/jobs/7/x/file")" = x ]
}

@test "each node has its part of a shard" {
  mkdir src && for i in $(seq 1 20); do echo "$i" >"src/$i"; done
  jq -n --arg a "$PWD/src" '{version:1,sources:[{from:$a,cache:"shard"}]}' >sources.json
  for node in 0 1 2; do
    "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$PWD/part$node" --node $node --nodes 3
  done
  [ "$(cat part?/* | sort -n | xargs)" = "$(seq 1 20 | xargs)" ]
  for node in 0 1 2; do [ "$(find part$node/ -type f | wc -l)" -ge 6 ]; done
}

@test "a user who has changed a cached file gets it back as it was" {
  make_tree src
  sources "$PWD/src"
  fetch
  chmod 644 data/a/numbers && echo broken >>data/a/numbers
  chmod 755 data/a && rm -f "data/a/b c/-odd *name"
  run fetch
  [ "$status" -eq 0 ]
  diff -r src data
  [ "$(jq .fetched progress.json)" -eq $(($(stat -c %s src/a/numbers) + 2)) ]
}

@test "a checksum is compared, and a wrong one is the user's failure" {
  echo content >file
  sum=$(sha256sum file | cut -d' ' -f1)
  jq -n --arg a "$PWD/file" --arg s "sha256:$sum" '{version:1,sources:[{from:$a,checksum:$s}]}' >sources.json
  run fetch
  [ "$status" -eq 0 ]
  [ "$(cat data/file)" = content ]
  jq -n --arg a "$PWD/file" --arg s "sha256:$(printf '0%.0s' {1..64})" '{version:1,sources:[{from:$a,checksum:$s}]}' >sources.json
  run fetch
  [ "$status" -eq 65 ]
  contains "$output" "its checksum is sha256:$sum, not"
  # The file is still the same, so it is not read again.
  [ "$(jq .fetched progress.json)" -eq 8 ]
}

@test "what a killed fetch has kept of another state does not make the new one wrong" {
  head -c 150000000 /dev/urandom >new && head -c 150000000 /dev/urandom >file
  sum=$(sha256sum new | cut -d' ' -f1)
  sources "$PWD/file" "sha256:$sum"
  "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$PWD/data" --streams 1 &
  pid=$!
  await_journal $pid
  kill -9 $pid 2>/dev/null || true
  wait $pid || true
  mv new file
  run fetch
  [ "$status" -eq 0 ]
  [ "$(sha256sum <data/file | cut -d' ' -f1)" = "$sum" ]
}

@test "what cannot be data is refused with one sentence that names it" {
  mkdir src
  sources "$PWD/src"
  refused() { # PATTERN
    run --separate-stderr fetch
    [ "$status" -eq 65 ] || return 1
    [ "$(wc -l <<<"$stderr")" -eq 1 ] || return 1
    contains "$stderr" "$1" || return 1
    [ ! -e data ]
  }
  ln -s nowhere src/l && refused 'src/l is a symbolic link that leads to nothing' && rm src/l
  mkdir src/d && ln -s .. src/d/up && refused 'in a circle' && rm -r src/d
  mkfifo src/f && refused 'src/f is a FIFO' && rm src/f
  touch "src/a"$'\n'"b" && refused 'control character' && rm src/a*
  sources "$PWD/missing"
  refused 'missing: No such file or directory'
  sources /dev/null
  refused '/dev/null is a device'
}

@test "sparse and empty files arrive with their size and content" {
  mkdir src && truncate -s 100M src/sparse && printf end >>src/sparse && : >src/empty
  sources "$PWD/src"
  run fetch
  [ "$status" -eq 0 ]
  cmp src/sparse data/sparse
  [ -f data/empty ]
}

@test "names that differ in case alone are different files" {
  mkdir src && echo 1 >src/Name && echo 2 >src/name
  sources "$PWD/src"
  fetch
  diff -r src data
}

@test "a fetch that was killed goes on where it was" {
  mkdir src
  head -c 200000000 /dev/urandom >src/large
  for i in $(seq 1 300); do head -c 3000 /dev/urandom >"src/$i"; done
  sources "$PWD/src"
  work=$PWD/cache/$(id -u)/unfinished
  for _ in 1 2 3; do
    "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$PWD/data" --streams 1 &
    pid=$!
    await_journal $pid "$(journal_lines)"
    kill -9 $pid 2>/dev/null || true
    wait $pid || true
    [ ! -e data ] || break
  done
  run fetch
  [ "$status" -eq 0 ]
  diff -r src data
  [ "$(jq '.fetched + .resumed == .total' progress.json)" = true ]
  [ "$(jq .resumed progress.json)" -gt 0 ]
  [ -z "$(ls "$work")" ]
}

@test "two fetches of one set at once read each byte once" {
  mkdir src && head -c 100000000 /dev/urandom >src/large && for i in $(seq 1 100); do echo "$i" >"src/$i"; done
  sources "$PWD/src"
  "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$PWD/one" --progress one.json >one.out &
  "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$PWD/two" --progress two.json >two.out &
  wait
  diff -r src one
  [ "$(readlink one)" = "$(readlink two)" ]
  [ "$(jq -s '(.[0].fetched + .[1].fetched) == .[0].total' one.json two.json)" = true ]
}

@test "the lease of a fetch that holds ends with its standard input, and with kill -9" {
  make_tree src
  sources "$PWD/src"
  leased() { "$dl_data" ls --cache "$PWD/cache" --json | jq '.[0].leased'; }
  for end in close kill; do
    mkfifo "in-$end"
    "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$PWD/data" --hold <"in-$end" >"out-$end" &
    pid=$!
    exec 7>"in-$end"
    wait_grep '"state":"done"' "out-$end"
    [ "$(leased)" = true ]
    "$dl_data" gc --all --cache "$PWD/cache"
    diff -r src data
    if [ $end = kill ]; then kill -9 $pid; fi
    exec 7>&-
    wait $pid || true
    [ "$(leased)" = false ]
  done
  "$dl_data" gc --all --cache "$PWD/cache"
  [ ! -e data/run ]
}

@test "the links of a job stay as long as its lease, and go with the next fetch or collection" {
  make_tree src
  sources "$PWD/src"
  jobs=$PWD/cache/$(id -u)/jobs
  mkfifo in
  "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$jobs/7" --hold <in >out &
  exec 7>in
  wait_grep '"state":"done"' out
  "$dl_data" gc --cache "$PWD/cache"
  fetch
  diff -r src "$jobs/7"
  exec 7>&-
  wait $!
  "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$jobs/8" >out
  [ "$(ls "$jobs")" = 8 ]
  "$dl_data" gc --cache "$PWD/cache"
  [ -z "$(ls "$jobs")" ]
  diff -r src data
}

@test "the limit of a cache evicts the oldest set, never one that is pinned, and a larger set is refused" {
  for name in a b c; do mkdir $name && head -c 400000 /dev/urandom >$name/file; done
  get() { sources "$PWD/$1" && "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$PWD/data-$1" --limit 1M --floor 0; }
  keys() { "$dl_data" ls --cache "$PWD/cache" --json | jq -r '.[].source' | xargs -n1 basename | sort | xargs; }
  get a && get b
  [ "$(keys)" = "a b" ]
  get c
  [ "$(keys)" = "b c" ]
  "$dl_data" pin --cache "$PWD/cache" "$PWD/b"
  get a
  [ "$(keys)" = "a b" ]
  mkdir d && head -c 1200000 /dev/zero >d/file
  run get d
  [ "$status" -eq 65 ]
  contains "$output" "cache=shard"
  "$dl_data" pin --cache "$PWD/cache" "$PWD/a"
  run get c
  [ "$status" -eq 74 ]
  contains "$output" "no room"
  [ "$(keys)" = "a b" ]
}

@test "sources that a cache can hold each, but not together, are refused before anything is fetched" {
  for name in a b; do mkdir $name && head -c 700000 /dev/urandom >$name/file; done
  jq -n --arg a "$PWD/a" --arg b "$PWD/b" '{version:1,sources:[{from:$a,to:"a"},{from:$b,to:"b"}]}' >sources.json
  run fetch --limit 1M
  [ "$status" -eq 65 ]
  contains "$output" "cache=shard"
  [ "$(jq .fetched progress.json)" -eq 0 ]
  # The same twice is one set.
  jq -n --arg a "$PWD/a" '{version:1,sources:[{from:$a,to:"a"},{from:$a,to:"b"}]}' >sources.json
  run fetch --limit 1M
  [ "$status" -eq 0 ]
  cmp data/a/file data/b/file
}

@test "a full disk in mid-file is the node's failure, and leaves nothing behind" {
  [ "$(id -u)" -eq 0 ] || skip "mounts a small file system, which root may"
  mkdir small src && mount -t tmpfs -o size=8m,mode=700 none small || skip "tmpfs cannot be mounted here"
  head -c 7000000 /dev/zero >small/ballast
  for i in $(seq 1 40); do head -c 100000 /dev/urandom >"src/$i"; done
  sources "$PWD/src"
  run "$dl_data" fetch --sources sources.json --cache "$PWD/small" --dest "$PWD/data" --floor 0
  echo "$status $output"
  remaining=$(find small -type f -size +4k | wc -l)
  umount small
  [ "$status" -eq 74 ]
  [ "$remaining" -eq 1 ]
  [ ! -e data ]
}

@test "a source that changes while it is fetched is noticed" {
  mkdir src && head -c 300000000 /dev/zero >src/large
  sources "$PWD/src"
  "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$PWD/data" --streams 1 --progress progress.json &
  pid=$!
  await_journal $pid
  printf x | dd of=src/large bs=1 seek=5 conv=notrunc status=none
  wait $pid
  # Whether the change came before the end or after it: what is there is one state of the file, or a new fetch gets the new one.
  run fetch
  [ "$status" -eq 0 ]
  cmp src/large data/large
}

@test "results are stored with a manifest last, finished ones are not stored again, and what cannot be stored is told" {
  make_tree results
  mkdir logs && echo log >logs/learner-0.log
  ln -s a/numbers results/latest
  run store --from "$PWD/results=results" --from "$PWD/logs=logs" --to "$PWD/kept/job-7"
  [ "$status" -eq 0 ]
  diff -r results kept/job-7/results
  diff -r logs kept/job-7/logs
  [ "$(readlink kept/job-7/results/latest)" = a/numbers ]
  [ "$(jq -r '.files[].path' kept/job-7/dl-results.json | grep -c numbers)" -eq 1 ]
  echo more >>logs/learner-0.log
  run store --from "$PWD/results=results" --from "$PWD/logs=logs" --to "$PWD/kept/job-7"
  [ "$status" -eq 0 ]
  [ "$(jq .fetched progress.json)" -eq 9 ]
  mkfifo results/fifo && touch "results/new"$'\n'"line" && echo x >results/z
  run --separate-stderr store --from "$PWD/results=results" --to "$PWD/kept/job-7"
  [ "$status" -eq 0 ]
  [ "$(wc -l <<<"$stderr")" -eq 1 ]
  contains "$stderr" 'stored all but .* and 1 more'
  [ "$(cat kept/job-7/results/z)" = x ]
  [ "$(jq '.left | length' kept/job-7/dl-results.json)" -eq 2 ]
  [ -z "$(find kept -name '*dl-data-part*')" ]
}

@test "what has become another kind of file is stored as what it is now, and never through a link" {
  mkdir -p results/link results/file results/now kept/7/results/now kept/7/results/full elsewhere
  for name in link/x file/x now/x full empty other "$(printf 'n%.0s' {1..255})"; do echo new >"results/$name"; done
  mkdir kept/7/results/empty
  echo theirs >kept/7/results/full/theirs
  echo old >kept/7/results/file
  ln -s "$PWD/elsewhere" kept/7/results/link
  run --separate-stderr store --from "$PWD/results=results" --to "$PWD/kept/7"
  [ "$status" -eq 0 ]
  contains "$stderr" 'stored all but results/full: .*folder'
  [ -z "$(ls elsewhere)" ]
  [ "$(cat kept/7/results/full/theirs)" = theirs ]
  rm -r kept/7/results/full
  cp results/full kept/7/results/full
  diff -r results kept/7/results
  [ "$(jq -r '.left[]' kept/7/dl-results.json | grep -c full)" -eq 1 ]
  [ "$(jq '.files | length' kept/7/dl-results.json)" -eq 6 ]
  [ -z "$(find kept -name '*dl-data-part*')" ]
  rm -r kept/7/results && ln -s "$PWD/elsewhere" kept/7/results
  run store --from "$PWD/results=results" --to "$PWD/kept/7"
  [ "$status" -eq 65 ]
  contains "$output" 'in the way'
  [ -z "$(ls elsewhere)" ]
}

@test "a file that may not be read is left out, and all others are stored" {
  mkdir results && echo x >results/mine && echo y >results/theirs && chmod 000 results/theirs
  run --separate-stderr without_rights "$dl_data" store --from "$PWD/results=results" --to "$PWD/kept"
  [ "$status" -eq 0 ]
  contains "$stderr" 'stored all but results/theirs may not be read'
  [ "$(cat kept/results/mine)" = x ]
  [ "$(jq -c '[.files[].path, .left[]]' kept/dl-results.json)" = '["results/mine","results/theirs may not be read"]' ]
}

@test "what is stored is as private as it was, and no less than the user's umask asks" {
  mkdir -m 700 private && mkdir -m 755 private/open private/run && mkdir -m 555 private/read
  echo x >private/key && chmod 600 private/key
  echo x >private/open/all && chmod 666 private/open/all
  echo x >private/run/it && chmod 755 private/run/it
  modes() { (cd kept && stat -c '%a %n' "$@" | xargs); }
  (umask 022 && store --from "$PWD/private=results" --to "$PWD/kept/7" >out)
  [ "$(modes 7 7/dl-results.json 7/results 7/results/key 7/results/open 7/results/open/all 7/results/run/it 7/results/read)" = \
    "755 7 644 7/dl-results.json 700 7/results 600 7/results/key 755 7/results/open 644 7/results/open/all 755 7/results/run/it 755 7/results/read" ]
  (umask 077 && store --from "$PWD/private=results" --to "$PWD/kept/8" >out)
  [ "$(modes 8 8/dl-results.json 8/results 8/results/key 8/results/open 8/results/open/all 8/results/run/it)" = \
    "700 8 600 8/dl-results.json 700 8/results 600 8/results/key 700 8/results/open 600 8/results/open/all 700 8/results/run/it" ]
}

@test "what is made private after it was stored is private where it was stored, too, at the next store" {
  mkdir -m 755 results results/in && echo x >results/in/key && echo y >results/run && chmod 755 results/run && chmod 644 results/in/key
  mkdir -m 775 kept
  modes() { (cd kept && stat -c '%a %n' . 7 7/results 7/results/in 7/results/in/key 7/results/run | xargs); }
  umask 022
  store --from "$PWD/results=results" --to "$PWD/kept/7" >out
  chmod 2777 kept/7 kept/7/results
  [ "$(modes)" = "775 . 2777 7 2777 7/results 755 7/results/in 644 7/results/in/key 755 7/results/run" ]
  chmod 700 results/in results/run && chmod 600 results/in/key
  store --from "$PWD/results=results" --to "$PWD/kept/7" >out
  [ "$(jq .fetched progress.json)" -eq 0 ]
  [ "$(modes)" = "775 . 2777 7 2755 7/results 700 7/results/in 600 7/results/in/key 700 7/results/run" ]
  chmod 755 results/in results/run && chmod 644 results/in/key
  store --from "$PWD/results=results" --to "$PWD/kept/7" >out
  [ "$(modes)" = "775 . 2777 7 2755 7/results 700 7/results/in 600 7/results/in/key 700 7/results/run" ] # what it has become may be meant
}

@test "a store that was killed or came to its deadline has no manifest, and the next one goes on" {
  mkdir results && for i in 1 2 3; do head -c 150000000 /dev/zero >results/$i; done
  "$dl_data" store --from "$PWD/results" --to "$PWD/kept" --streams 1 >out &
  pid=$!
  for _ in $(seq 1000); do
    [ -e kept/1 ] || [ -e kept/2 ] || [ -e kept/3 ] && break
    sleep 0.01
  done
  kill -9 $pid 2>/dev/null || true
  wait $pid || true
  if [ ! -e kept/dl-results.json ]; then
    run store --from "$PWD/results" --to "$PWD/kept"
    [ "$status" -eq 0 ]
    [ "$(jq '.resumed > 0' progress.json)" = true ]
  fi
  diff -r --exclude=dl-results.json results kept
  [ -e kept/dl-results.json ]
  [ -z "$(find kept -name '*dl-data-part*')" ]
}

@test "the command line is one of dl-data's" {
  run "$dl_data"
  [ "$status" -eq 64 ]
  run "$dl_data" fetch --sources x
  [ "$status" -eq 64 ]
  run "$dl_data" fetch --help
  [ "$status" -eq 0 ]
  contains "$output" '--hold'
  sources "$PWD"
  run "$dl_data" check --sources sources.json
  [ "$status" -eq 0 ]
  sources "$PWD/none"
  run "$dl_data" check --sources sources.json
  [ "$status" -eq 65 ]
}

@test "whether results can be stored in a place is told before anything is" {
  echo file >taken
  check_to() { run "$dl_data" check --to "$1" && [ "$status" -eq "$2" ]; }
  check_to "$PWD/new/%j" 0
  [ ! -e new ]
  check_to "$PWD/taken/out/%j" 65
  contains "$output" "'$PWD/taken/out/%j' cannot be made: $PWD/taken is not a folder"
  check_to 'https://host/x' 65
  check_to ':s3,secret_access_key=pLanTeD:x' 65
  [[ $output != *pLanTeD* ]]
  mkdir -m 555 closed
  run without_rights "$dl_data" check --to "$PWD/new" --to "$PWD/closed/out"
  [ "$status" -eq 65 ]
  contains "$output" "you may not write to $PWD/closed"
}
