#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What dlpolicyd tells Prometheus, judged by Prometheus itself: the text, the rules, and each query of the dashboards. The metrics are those
# of a made-up cluster (tests/lib/exposition.cpp), in which each one has a value; tests/cluster/reclaim.bats has those of a real one.
bats_require_minimum_version 1.5.0
: "${top_srcdir:=$(cd "$(dirname "$BATS_TEST_FILENAME")/../.." && pwd)}"
: "${top_builddir:=$top_srcdir/build}"

setup() {
  cd "$BATS_TEST_TMPDIR" || return 1
  exposition=$top_builddir/tests/lib/exposition
  rules=$top_srcdir/packaging/prometheus/slurm-dl.rules.yml
  dashboards=("$top_srcdir"/packaging/grafana/*.json)
}
# need PROGRAM: sets $program, or skips the test with the reason.
need() { program=$("$top_srcdir/packaging/install-promtool" "$1" 2>why) || skip "$(cat why)"; }

@test "promtool has no word to say of the metrics, however many jobs there are and whatever they are called" {
  need promtool
  "$exposition" >metrics.prom
  "$program" check metrics <metrics.prom
  "$exposition" 10000 >many.prom
  "$program" check metrics <many.prom
  [ "$(grep -c '^dl_job_info{' many.prom)" = 1000 ]
  grep -qx 'dl_jobs_left_out 9004' many.prom
}

@test "a real Prometheus keeps each metric with its labels, and finds something for each rule and each query of the dashboards" {
  need prometheus
  "$exposition" >metrics.prom
  python3 "$top_srcdir/tests/lib/prometheus.py" "$program" metrics.prom "$rules" "${dashboards[@]}"
}

@test "the dashboards are what their tables say, and name metrics and recordings that exist" {
  "$top_srcdir/packaging/grafana/write-dashboards" --check
  known=$(sed -nE '/^\.SH METRICS$/,/^\.SH SIGNALS$/s/^\.BR? ((dl|trainer)_[a-z_]+)( .*)?$/\1/p' "$top_srcdir/man/dlpolicyd.8.in")
  recorded=$(sed -nE 's/^ *- record: //p' "$rules")
  # Words in quotes are values of labels.
  used=$(sed -nE 's/^ *"(expr|query)": "(.*)",?$/\2/p' "${dashboards[@]}" && sed -nE 's/^ *expr: //p' "$rules")
  names=$(sed -E 's/\\?"[^"]*\\?"//g' <<<"$used" | grep -oE '\b(gpu_type:|tenant:)?(dl|trainer)_[a-z_]+(:[a-z0-9_]+)?' | sort -u)
  (($(wc -l <<<"$names") > 50))
  for name in $names; do
    grep -qxF -- "$name" <<<"$known"$'\n'"$recorded" || { echo "$name is neither in dlpolicyd(8) nor recorded"; false; }
  done
}

@test "the dashboards fit the schema that Grafana publishes: it knows each member, and each value is of its type" {
  python=$("$top_srcdir/packaging/install-frameworks" --path)/bin/python
  "$python" -c 'import grafana_foundation_sdk' 2>/dev/null || skip "needs the Python package grafana-foundation-sdk (packaging/install-frameworks)"
  "$python" "$top_srcdir/tests/lib/grafana_schema.py" "${dashboards[@]}"
  # It would find what does not.
  jq '.panels[0].type = 3 | .panels[1].gridpos = {} | .templating.list[1].sort = 99' "$top_srcdir/packaging/grafana/job.json" >wrong.json
  run -1 "$python" "$top_srcdir/tests/lib/grafana_schema.py" wrong.json
  [ "$(grep -cE 'panels\[0\].type_val is 3|gridpos is not known|sort is 99' <<<"$output")" -eq 3 ]
}

@test "each metric that dlpolicyd(8) lists has a value in the text, and each is on a dashboard" {
  "$exposition" >metrics.prom
  told=$(grep -oE '^[a-z_]+' metrics.prom | sort -u)
  known=$(sed -nE '/^\.SH METRICS$/,/^\.SH SIGNALS$/s/^\.BR? ((dl|trainer)_[a-z_]+)( .*)?$/\1/p' "$top_srcdir/man/dlpolicyd.8.in" | sort -u)
  diff <(echo "$known") <(echo "$told")
  for name in $known; do
    cat "${dashboards[@]}" "$rules" | grep -qE "\b$name\b" || { echo "$name is shown nowhere"; false; }
  done
}

@test "install-promtool refuses what is not Prometheus'" {
  run -2 "$top_srcdir/packaging/install-promtool" grafana
  [[ $output == *"'grafana' is not allowed; allowed: promtool, prometheus"* ]]
}
