#!/usr/bin/env bats
# A rendezvous that dlrun hosts serves learners of the job's own user, and nobody else on the machine.
# shellcheck disable=SC2016  # expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup() {
  dlrun_setup
  ((EUID == 0)) || skip "needs root, to be another user"
  command -v setpriv >/dev/null || skip "there is no setpriv"
  command -v python3 >/dev/null || skip "there is no python3"
}
# begin FRAMEWORK ENVIRONMENT…: two learners, since a single one hosts its store itself. The first tells where their rendezvous is. They wait
# for the file `go`.
begin() {
  env "${@:2}" timeout 180 "$dlrun" -n 2 -f "$1" --job-dir job -- sh -c '
    if [ "$DL_RANK" = 0 ]; then
      echo "${HOROVOD_GLOO_RENDEZVOUS_ADDR:-$MASTER_ADDR} ${HOROVOD_GLOO_RENDEZVOUS_PORT:-$MASTER_PORT}" >where.new
      mv where.new where
    fi
    until [ -e go ]; do sleep 0.1; done' 2>said 3>&- &
  pid=$!
  for _ in {1..200}; do [[ ! -e where ]] || break; sleep 0.05; done
  read -r address port <where
}
end() {
  touch go
  wait "$pid"
}
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
# What a connection that sends nothing meets within a second: "open", or "cut off".
meets='import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
s.settimeout(1)
try:
    print("cut off" if s.recv(1) == b"" else "answered")
except ConnectionResetError:
    print("cut off")
except TimeoutError:
    print("open")'
http='import sys, urllib.error, urllib.request
url = "http://%s:%s/global/0" % tuple(sys.argv[1:3])
try:
    print(urllib.request.urlopen(urllib.request.Request(url, data=b"x" if sys.argv[3] == "PUT" else None, method=sys.argv[3]), timeout=5).status)
except urllib.error.HTTPError as error:
    print(error.code)'

@test "the store of torch.distributed cuts off another user, and says so" {
  begin pytorch
  [ "$(as_nobody /usr/bin/python3 -c "$meets" "$address" "$port")" = "cut off" ]
  [ "$(/usr/bin/python3 -c "$meets" "$address" "$port")" = open ]
  end
  contains "$(cat said)" "^dlrun: warning: a connection from $address port [0-9]+ to the rendezvous was refused: it is user 65534's$"
  [ "$(grep -c refused said)" -eq 1 ]
}

@test "so does Horovod's rendezvous" {
  begin horovod
  [ "$(/usr/bin/python3 -c "$http" "$address" "$port" PUT)" = 200 ]
  [ "$(as_nobody /usr/bin/python3 -c "$http" "$address" "$port" GET)" = 403 ]
  [ "$(as_nobody /usr/bin/python3 -c "$http" "$address" "$port" PUT)" = 403 ]
  [ "$(/usr/bin/python3 -c "$http" "$address" "$port" GET)" = 200 ]
  end
}

@test "DL_CHECK_CONNECTIONS=0 lets everybody in" {
  begin pytorch DL_CHECK_CONNECTIONS=0
  [ "$(as_nobody /usr/bin/python3 -c "$meets" "$address" "$port")" = open ]
  end
}
