#!/usr/bin/env bash
# On Debian 13's Slurm (24.11): slurm-dl is built there, and the cluster tests with the tag "versions" pass. Skipped where
# this machine cannot have that release: no root, or an archive that is not reached.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=tests/versions/roots.bash
top=$top_srcdir . "$top_srcdir/tests/versions/roots.bash"
slurm=24.11
said=$("$top_srcdir/tests/versions/run" --slurm $slurm --tagged 2>&1) && status=0 || status=$?
if [ "$status" -eq 3 ]; then
  skip "slurm-dl on Slurm $slurm" "$(tail -n 1 <<<"$said" | cut -c1-300)"
else
  expect_build=$(grep -E "^$slurm +build" <<<"$said")
  check "slurm-dl is built on Slurm $slurm without a warning" "$(grep -qE 'Werror +1 ' <<<"$expect_build" || tail -n 30 <<<"$said")"
  # Each test of the cluster tests' own output is a test here, under its name.
  for log in "$(roots_folder)/$slurm-logs"/cluster_*.tap; do
    [ -e "$log" ] || continue
    while read -r line; do
      name="Slurm $slurm: $(sed -E 's/^(not )?ok [0-9]+ //; s/ # skip.*//I' <<<"$line")"
      case $line in
        'not ok'*) not_ok "$name" "$(grep -A20 -F -- "$line" "$log" | sed -n '2,20p' | sed 's/^# //')" ;;
        *'# skip'*) skip "$name" "${line#*# skip }" ;;
        'ok'*) ok "$name" ;;
      esac
    done < <(grep -E '^(not )?ok ' "$log")
  done
  check "all of them were run" "$([ "$tap_count" -gt 10 ] || echo "only $tap_count: $said")"
fi
finish
