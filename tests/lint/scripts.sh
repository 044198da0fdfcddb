#!/usr/bin/env bash
# Shell scripts pass shellcheck, and Python files compile.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
cd "$top_srcdir" || exit 1
scripts=$(project_files | while read -r f; do
  case $f in
    *.sh | *.bash | *.bats) echo "$f" ;;
    *.*) ;;
    *) head -c 64 "$f" | grep -qaE '^#!.*(bash|/sh)' && echo "$f" ;;
  esac
done)
if command -v shellcheck >/dev/null; then
  for script in $scripts; do
    check "$script passes shellcheck" "$(shellcheck -x "$script" 2>&1)"
  done
else
  skip "shell scripts pass shellcheck" "shellcheck is not installed"
fi
# bash does not end a test for what stands before &&, so that a false `[ a ] && [ b ]` passes unless it is the last line.
findings=$(project_files | grep '\.bats$' |
  xargs grep -nE '^ *(\[ .* \]|\[\[ .* \]\]|\(\(.*\)\)) && (\[|\(\().*(\]|\)\))$' /dev/null | grep -vF ' || ')
check "no line of a bats file holds two conditions with && between them" "$findings"
rules=packaging/prometheus/slurm-dl.rules
if promtool=$(packaging/install-promtool 2>/dev/null); then
  check "the alert rules for Prometheus pass promtool" "$(said=$("$promtool" check rules --lint-fatal $rules.yml 2>&1) || echo "$said")"
  check "each alert fires when it should, and not before" "$(said=$("$promtool" test rules $rules.test.yml 2>&1) || echo "$said")"
  findings=$(grep -oP '(?<=alert: )\w+' $rules.yml | while read -r alert; do
    [ "$(grep -c "alertname: $alert\b" $rules.test.yml)" -ge 2 ] || echo "$alert has no test in $rules.test.yml"
  done)
  check "each alert has a test in which it fires and one in which it does not" "$findings"
else
  skip "the alert rules for Prometheus pass promtool" "$(packaging/install-promtool 2>&1 >/dev/null)"
fi
findings=$(project_files | grep '\.py$' | while read -r f; do
  /usr/bin/env python3 -c 'import ast,sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$f" 2>&1
done)
check "Python files parse" "$findings"
finish
