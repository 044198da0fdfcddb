#!/usr/bin/env bats
# dl-data with real servers: rclone's S3, sshd for SFTP, a web server with faults.
# shellcheck disable=SC2154  # bats sets $stderr
# shellcheck source=tests/cli/data_lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/data_lib.bash"
# shellcheck source=tests/lib/s3_server.bash
source "$top_srcdir/tests/lib/s3_server.bash"

bats_require_minimum_version 1.5.0

setup() { data_setup; }

# wait_file FILE: until it is there, 60 s at most.
wait_file() {
  for _ in $(seq 600); do
    [ -s "$1" ] && return 0
    sleep 0.1
  done
  return 1
}

# web_server: serves ./web on $url, and makes curl trust it.
web_server() {
  mkdir -p web
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
    -keyout key.pem -out cert.pem 2>openssl.txt
  cat key.pem cert.pem >both.pem
  "$(command -v /usr/bin/python3 || command -v python3)" "$top_srcdir/tests/lib/faulty_web.py" web both.pem port 3>&- &
  wait_file port
  url=https://localhost:$(cat port)
  export CURL_CA_BUNDLE=$PWD/cert.pem
}
sum_of() { echo "sha256:$(sha256sum "$1" | cut -d' ' -f1)"; }

# free_port: one that nobody listens on.
free_port() { "$(command -v /usr/bin/python3 || command -v python3)" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# s3_server: rclone serves ./s3 (a folder is a bucket) by S3; the remote is called lab.
s3_server() {
  current=$("$top_srcdir/packaging/install-rclone" 2>no-rclone) || skip "$(cat no-rclone)"
  mkdir -p s3/bucket bin
  ln -sf "$current" bin/rclone
  PATH=$PWD/bin:$PATH
  local address
  address=127.0.0.1:$(free_port)
  s3_serve "$address" rclone
  s3_remote "$address" Rclone 'use_multipart_uploads = false'
}

@test "a file of a web server is fetched, by its checksum, and not again" {
  web_server
  head -c 3000000 /dev/urandom >web/file.bin
  sources "$url/file.bin" "$(sum_of web/file.bin)"
  run fetch
  [ "$status" -eq 0 ]
  cmp web/file.bin data/file.bin
  run fetch
  [ "$status" -eq 0 ]
  [ "$(jq .fetched progress.json)" -eq 0 ]
  [ "$(grep -c '^GET' web/.requests)" -eq 1 ]
}

@test "brackets and braces in a URL are its own, not patterns of curl" {
  web_server
  for name in 'part[1-3].bin' '{a,b}.bin'; do
    head -c 3000 /dev/urandom >"web/$name"
    sources "$url/$name" "$(sum_of "web/$name")"
    run fetch
    [ "$status" -eq 0 ]
    cmp "web/$name" "data/$name"
  done
}

@test "a cut connection, 503 and wrong lengths are got over, and nothing is read twice that has arrived" {
  web_server
  head -c 150000000 /dev/urandom >web/file.bin
  sources "$url/file.bin" "$(sum_of web/file.bin)"
  printf 'file.bin %s\n' '503 2' 'cut:70000000 1' 'short 1' 'long 1' 'cut:10 1' >web/.faults
  run fetch --streams 1
  [ "$status" -eq 0 ]
  cmp web/file.bin data/file.bin
  # 64 MiB at most are lost with a cut; `short` and `long` are noticed before or after a part.
  [ "$(jq '.fetched < .total + 4 * 67108864' progress.json)" = true ]
}

@test "an object that changes between two ranges is fetched as one state of it" {
  web_server
  head -c 140000000 /dev/urandom >web/file.bin
  head -c 140000000 /dev/urandom >web/next.bin
  sources "$url/file.bin" "$(sum_of web/next.bin)"
  echo 'file.bin cut:100000000 1' >web/.faults
  echo 'file.bin swap:next.bin 1' >>web/.faults
  run fetch --streams 1
  [ "$status" -eq 0 ]
  cmp web/next.bin data/file.bin
}

@test "failures of a web server have their class" {
  web_server
  echo x >web/file.bin
  sources "$url/file.bin" "$(sum_of web/file.bin)"
  ends() { # STATUS PATTERN
    run fetch --tries 2
    [ "$status" -eq "$1" ] && contains "$output" "$2"
  }
  echo 'file.bin 403' >web/.faults && ends 65 'status 403'
  echo 'file.bin 503' >web/.faults && ends 75 'status 503'
  echo 'file.bin page' >web/.faults && ends 65 'changed|checksum'
  sources "$url/none.bin" "$(sum_of web/file.bin)" && ends 65 'status 404'
  sources "$url/file.bin" "sha256:$(printf '1%.0s' {1..64})"
  : >web/.faults && : >web/.requests
  ends 65 'its checksum is'
  [ "$(grep -c '^GET' web/.requests)" -eq 1 ]
  echo 'file.bin nolength' >web/.faults && ends 65 "does not tell the file's length"
  sources "https://localhost:$(free_port)/file.bin" "$(sum_of web/file.bin)" && ends 75 'onnect'
  unset CURL_CA_BUNDLE
  sources "$url/file.bin" "$(sum_of web/file.bin)" && ends 65 'certificate is not trusted'
  [ ! -e data ]
}

@test "a server without ranges gives the whole file, also after a cut" {
  web_server
  head -c 100000000 /dev/urandom >web/file.bin
  sources "$url/file.bin" "$(sum_of web/file.bin)"
  echo 'file.bin norange' >web/.faults
  run fetch
  [ "$status" -eq 0 ]
  cmp web/file.bin data/file.bin
}

@test "a server that refuses HEAD is asked for one byte" {
  web_server
  head -c 3000000 /dev/urandom >web/file.bin
  sources "$url/file.bin" "$(sum_of web/file.bin)"
  echo 'file.bin nohead' >web/.faults
  run fetch
  [ "$status" -eq 0 ]
  cmp web/file.bin data/file.bin
}

@test "the URL is in no command line of the processes that fetch it" {
  web_server
  head -c 3000 /dev/urandom >web/planted-name.bin # more than what comes before a stall
  echo 'planted-name.bin stall 1' >web/.faults
  sources "$url/planted-name.bin" "$(sum_of web/planted-name.bin)"
  "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$PWD/data" >out 2>&1 &
  pid=$!
  wait_grep 'GET planted-name' web/.requests
  run pgrep -fa planted-name
  [ "$status" -eq 1 ]
  kill $pid
  wait $pid || true
}

@test "a bucket is fetched: small and large objects, odd names; the second job fetches nothing" {
  s3_server
  mkdir -p "s3/bucket/train/a b/ä"
  for i in $(seq 1 50); do head -c "$((i * 1000))" /dev/urandom >"s3/bucket/train/a b/ä/$i.bin"; done
  head -c 200000000 /dev/urandom >s3/bucket/train/large.bin
  sources lab:bucket/train
  run fetch
  [ "$status" -eq 0 ]
  diff -r s3/bucket/train data
  [ "$(jq '.fetched == .total and .files == 51' progress.json)" = true ]
  run fetch
  [ "$status" -eq 0 ]
  [ "$(jq .fetched progress.json)" -eq 0 ]
  sources lab:bucket/train/large.bin
  run fetch
  [ "$status" -eq 0 ]
  cmp s3/bucket/train/large.bin data/large.bin
  nowhere_planted .
}

@test "a fetch of a bucket that is killed goes on, and no process of it is left" {
  s3_server
  mkdir s3/bucket/set
  head -c 400000000 /dev/urandom >s3/bucket/set/large.bin
  for i in $(seq 1 30); do echo "$i" >"s3/bucket/set/$i"; done
  sources lab:bucket/set
  "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$PWD/data" --streams 2 >out 2>&1 &
  pid=$!
  await_journal $pid
  kill -9 $pid 2>/dev/null || true
  wait $pid || true
  gone "rclone (cat|copy).*lab:bucket/set"
  run fetch
  [ "$status" -eq 0 ]
  diff -r s3/bucket/set data
  [ "$(jq '.resumed > 0 and .bytes == .total' progress.json)" = true ]
}

@test "failures of a remote have their class, and a secret is in no message" {
  s3_server
  ends() { # STATUS PATTERN
    run fetch --tries 2
    [ "$status" -eq "$1" ] && contains "$output" "$2"
  }
  sources lab:bucket/none && ends 65 'not found'
  sources lab:nobucket/x && ends 65 'not found|NoSuchBucket'
  sources other:x && ends 65 'rclone configuration'
  "$dl_data" check --to lab:bucket/out/%j
  run "$dl_data" check --to lab:bucket/out --to other:x
  [ "$status" -eq 65 ]
  contains "$output" "'other:x' names a remote that is not in your rclone configuration"
  sed -i 's/secret_access_key = .*/secret_access_key = pLanTeDwrong/' rclone.conf
  sources lab:bucket && ends 65 'lab:bucket'
  sed -i 's/endpoint = .*/endpoint = http:\/\/127.0.0.1:1/' rclone.conf
  sources lab:bucket && ends 75 'lab:bucket'
  sources lab:bucket
  chmod 644 rclone.conf
  run "$dl_data" check --sources sources.json
  [ "$status" -eq 65 ]
  contains "$output" 'chmod 600'
  rm rclone.conf
  run "$dl_data" check --sources sources.json
  [ "$status" -eq 65 ]
  nowhere_planted . && ! grep pLanTeD <<<"$output"
}

@test "an object that changes while a bucket is fetched is noticed" {
  s3_server
  mkdir s3/bucket/set
  head -c 300000000 /dev/zero >s3/bucket/set/large.bin
  sources lab:bucket/set
  "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$PWD/data" --streams 1 --progress progress.json >out 2>&1 &
  pid=$!
  await_journal $pid
  head -c 300000000 /dev/urandom >s3/bucket/new && mv s3/bucket/new s3/bucket/set/large.bin
  wait $pid || true
  run fetch
  [ "$status" -eq 0 ]
  cmp s3/bucket/set/large.bin data/large.bin
}

@test "results are stored in a bucket, the manifest last; the deadline ends it, and the next one goes on" {
  s3_server
  mkdir -p results/a && seq 1 100 >results/a/numbers && head -c 30000000 /dev/urandom >results/weights
  run store --from "$PWD/results=results" --to lab:bucket/job-7
  [ "$status" -eq 0 ]
  diff -r results s3/bucket/job-7/results
  [ "$(jq '.files | length' s3/bucket/job-7/dl-results.json)" -eq 2 ]
  echo mine >results/theirs && chmod 000 results/theirs
  run --separate-stderr without_rights "$dl_data" store --from "$PWD/results=results" --to lab:bucket/job-9
  [ "$status" -eq 0 ]
  contains "$stderr" 'stored all but results/theirs may not be read'
  [ "$(jq -r '.left[]' s3/bucket/job-9/dl-results.json)" = "results/theirs may not be read" ]
  rm -f results/theirs
  diff -r results s3/bucket/job-9/results
  echo more >>results/a/numbers
  RCLONE_BWLIMIT=1M run store --from "$PWD/results=again" --to lab:bucket/job-8 --deadline 2
  [ "$status" -eq 73 ]
  contains "$output" 'not stored yet'
  [ ! -e s3/bucket/job-8/dl-results.json ]
  run store --from "$PWD/results=again" --to lab:bucket/job-8
  [ "$status" -eq 0 ]
  diff -r results s3/bucket/job-8/again
  [ -e s3/bucket/job-8/dl-results.json ]
  nowhere_planted .
}

@test "a folder of another machine is fetched and stored by SFTP" {
  sshd=$(command -v /usr/sbin/sshd) || skip "openssh-server is not installed"
  command -v rclone >/dev/null || skip "rclone is not installed"
  mkdir -p remote/set && seq 1 1000 >remote/set/numbers && head -c 1000000 /dev/urandom >remote/set/file
  ssh-keygen -q -t ed25519 -N '' -f host && ssh-keygen -q -t ed25519 -N '' -f user
  cp user.pub keys && chmod 600 keys
  [ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd
  port=$(free_port)
  cat >sshd_config <<END
Port $port
ListenAddress 127.0.0.1
HostKey $PWD/host
AuthorizedKeysFile $PWD/keys
StrictModes no
UsePAM no
PidFile $PWD/sshd.pid
PasswordAuthentication no
PermitRootLogin yes
Subsystem sftp internal-sftp
END
  "$sshd" -D -e -f sshd_config 2>sshd.log 3>&- &
  wait_file sshd.pid
  printf '[far]\ntype = sftp\nhost = 127.0.0.1\nport = %s\nuser = %s\nkey_file = %s\nshell_type = unix\n' "$port" "$(id -un)" "$PWD/user" >rclone.conf
  chmod 600 rclone.conf
  sources "far:$PWD/remote/set"
  run fetch
  [ "$status" -eq 0 ]
  diff -r remote/set data
  run store --from "$PWD/remote/set=got" --to "far:$PWD/remote/kept"
  [ "$status" -eq 0 ]
  diff -r remote/set remote/kept/got
  [ -e remote/kept/dl-results.json ]
  rm keys
  sources "far:$PWD/remote/other"
  run fetch --tries 1
  [ "$status" -eq 65 ]
}
