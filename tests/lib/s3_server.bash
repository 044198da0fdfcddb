# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The S3 server of the tests: a current rclone (packaging/install-rclone), since Debian's has none.

# s3_serve ADDRESS COMMAND…: COMMAND…, which ends with such a rclone, serves ./s3 by S3, each folder of it as a bucket; it says what it does in
# ./s3.log. In the background: its process is $!. (With --dir-cache-time 0s rclone 1.75 takes a whole core for itself once a folder was removed.)
s3_serve() {
  RCLONE_CONFIG=/dev/null "${@:2}" serve s3 --addr "$1" --auth-key AKIAPLANTEDPLANTED12,pLanTeDs3cretKey --vfs-cache-mode off --dir-cache-time 100ms \
    --poll-interval 0 s3 >s3.log 2>&1 3>&- &
}
# s3_remote ADDRESS PROVIDER [LINE…]: writes rclone.conf, with a server at ADDRESS as the remote lab:, and waits until it answers.
s3_remote() {
  printf '[lab]\ntype = s3\nendpoint = http://%s\nprovider = %s\naccess_key_id = AKIAPLANTEDPLANTED12\nsecret_access_key = pLanTeDs3cretKey\n' "$1" "$2" >rclone.conf
  (($# < 3)) || printf '%s\n' "${@:3}" >>rclone.conf
  chmod 600 rclone.conf
  for _ in $(seq 100); do
    rclone --config rclone.conf lsd lab: >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  cat s3.log >&2
  return 1
}
# nowhere_planted DIR…: the secret is in no file but the configuration.
nowhere_planted() { ! grep -rlaE 'pLanTeD' --exclude=rclone.conf --exclude-dir=s3 "$@"; }
