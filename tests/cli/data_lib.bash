# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the tests of dl-data begin with.
# shellcheck source=tests/cli/lib.bash
source "$(dirname "${BASH_SOURCE[0]}")/lib.bash"

# data_setup: a new folder, and no configuration of rclone. Sets $dl_data.
data_setup() {
  cd "$BATS_TEST_TMPDIR" || return 1
  local name
  for name in $(compgen -e | grep -E '^(SLURM|DL|RCLONE|AWS)_'); do
    [ "$name" = DL_TEST_RCLONE ] || unset "$name"
  done
  export RCLONE_CONFIG=$PWD/rclone.conf
  dl_data=$top_builddir/launcher/data/dl-data
}

# sources FROM [CHECKSUM]: writes sources.json with one source.
sources() { jq -n --arg a "$1" --arg s "${2-}" '{version:1,sources:[{from:$a,checksum:$s}]}' >sources.json; }
# fetch [OPTION...]: fetches it into ./cache and ./data.
fetch() { "$dl_data" fetch --sources sources.json --cache "$PWD/cache" --dest "$PWD/data" --progress progress.json --floor 0 "$@"; }
# without_rights COMMAND...: runs it without root's rights to all files, if root runs the tests.
without_rights() {
  if [ "$(id -u)" -ne 0 ]; then
    "$@"
    return
  fi
  setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-dac_override,-dac_read_search "$@"
}
store() { "$dl_data" store --progress progress.json "$@"; }
# journal_lines: of all large files that are being fetched.
journal_lines() { cat cache/*/unfinished/*/parts/*.journal 2>/dev/null | wc -l; }
