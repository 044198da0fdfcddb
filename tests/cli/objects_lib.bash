# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the tests of checkpoints in object stores begin with: an S3 server, behind something that makes faults, and the rclone that users of
# Debian have as its client.
# shellcheck source=tests/cli/lib.bash
source "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
# shellcheck source=tests/lib/s3_server.bash
source "$top_srcdir/tests/lib/s3_server.bash"

# a_python: that of the system, where a virtual environment may have none of what is needed.
a_python() { command -v /usr/bin/python3 || command -v python3; }

# await FILE: until it is there, 60 s at most.
await() {
  for _ in $(seq 600); do
    [ -s "$1" ] && return 0
    sleep 0.1
  done
  return 1
}

# objects_setup: a new folder, nothing of another job or another configuration of rclone in the environment.
objects_setup() {
  cd "$BATS_TEST_TMPDIR" || return 1
  clean_rclone_environment
  # shellcheck disable=SC2034  # used by the tests
  dlckpt=$top_builddir/checkpoint/dlckpt
}

# object_server: serves ./s3 (a folder is a bucket) by S3 as the remote lab:, through faulty_tcp.py with the file ./faults.
object_server() {
  local server port
  server=$("$top_srcdir/packaging/install-rclone" 2>no-rclone) || skip "$(cat no-rclone)"
  command -v rclone >/dev/null || { mkdir -p bin && ln -sf "$server" bin/rclone && PATH=$PWD/bin:$PATH; }
  mkdir -p s3/bucket
  port=$("$(a_python)" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  s3_serve "127.0.0.1:$port" "$server"
  "$(a_python)" "$top_srcdir/tests/lib/faulty_tcp.py" "$port" tcp.port faults >tcp.log 2>&1 3>&- &
  await tcp.port
  s3_remote "127.0.0.1:$(cat tcp.port)" Other
}

# watch_words: notes in ./words the command lines of all rclones and dlckpts but the server's, which has the secret, until ./watched is there.
watch_words() {
  while [ ! -e watched ]; do
    pgrep -af '(rclone|dlckpt) ' | grep -v ' serve s3 ' >>words || true
    sleep 0.02
  done
}
