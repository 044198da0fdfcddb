# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the tests of dl-data begin with.
# shellcheck source=tests/cli/lib.bash
source "$(dirname "${BASH_SOURCE[0]}")/lib.bash"

# data_setup: a new folder, and no configuration of rclone. Sets $dl_data.
data_setup() {
  cd "$BATS_TEST_TMPDIR" || return 1
  clean_rclone_environment
  dl_data=$top_builddir/launcher/data/dl-data
}

# sources FROM [CHECKSUM]: writes sources.json with one source.
sources() { jq -n --arg a "$1" --arg s "${2-}" '{version:1,sources:[{from:$a,checksum:$s}]}' >sources.json; }
# fetch [OPTION...]: fetches it into ./cache and ./data.
fetch() { "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$PWD/data" --progress progress.json --floor 0 "$@"; }
store() { "$dl_data" store --progress progress.json "$@"; }
# journal_lines: of all large files that are being fetched.
journal_lines() { cat cache/*/unfinished/*/parts/*.journal 2>/dev/null | wc -l; }
# await_journal PID [LINES]: until the fetch PID has written a part of a large file, which gives its journal more than LINES (by default 1, which
# is its head), or has ended, 30 s at most.
await_journal() {
  for _ in $(seq 3000); do
    [ "$(journal_lines)" -gt "${2-1}" ] && return
    [ -d "/proc/$1" ] || return 0
    sleep 0.01
  done
}
