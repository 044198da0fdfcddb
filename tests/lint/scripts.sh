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
if command -v promtool >/dev/null; then
  check "the alert rules for Prometheus pass promtool" "$(said=$(promtool check rules packaging/prometheus/slurm-dl.rules.yml 2>&1) || echo "$said")"
else
  skip "the alert rules for Prometheus pass promtool" "promtool is not installed (packaging/install-packages metrics)"
fi
findings=$(project_files | grep '\.py$' | while read -r f; do
  /usr/bin/env python3 -c 'import ast,sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$f" 2>&1
done)
check "Python files parse" "$findings"
finish
