#!/usr/bin/env bash
# dlpolicyd's command line and configuration, without a Slurm that answers.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
daemon=$top_builddir/slurm-plugin/policyd/dlpolicyd
[ -x "$daemon" ] || { echo "1..0 # SKIP built without libslurm"; exit 0; }
cd "$(mktemp -d)" || exit 1
printf '[tenants.vision]\nquota = 2\n' >good.toml
printf '[tenants.vision]\nquota = -2\n' >bad.toml

# expect NAME STATUS PATTERN ARGUMENTS…: of dlpolicyd (expect_run in tap.sh).
expect() { expect_run "$1" "$2" "$3" "$daemon" "${@:4}"; }

expect "help tells what it is for" 0 'Lends idle GPUs' --help
expect "the version is told" 0 '^slurm-dl [0-9]' --version
expect "an unknown option is refused" 2 '--forse' --forse
expect "--json is for dry runs" 2 '--json needs --dry-run' --json --config good.toml
for bad in 0s 2m x ''; do
  expect "an interval of '$bad' is refused" 2 '--interval' --config good.toml --pidfile lock --interval "$bad"
done
expect "a fault in dl.toml is told with its line" 2 'bad.toml:2: ' --config bad.toml --pidfile lock
expect "a lock file that cannot be made is named" 1 '--pidfile /nonexistent/lock' --config good.toml --pidfile /nonexistent/lock
exec 8>lock
flock 8
expect "a second one is refused" 3 'another dlpolicyd runs' --config good.toml --pidfile lock
exec 8>&-
finish
