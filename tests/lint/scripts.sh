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
# A script that passed is looked at again only when it, one that scripts may read, the settings or shellcheck have changed: stamps are kept
# in ~/.cache/slurm-dl/shellcheck, as ccache keeps objects.
if command -v shellcheck >/dev/null; then
  stamps=${XDG_CACHE_HOME:-$HOME/.cache}/slurm-dl/shellcheck
  if mkdir -p "$stamps" 2>/dev/null; then find "$stamps" -type f -mtime +30 -delete; fi
  mapfile -t read_by_others < <(project_files | grep -E '\.(bash|sh)$|(^|/)\.shellcheckrc$')
  common=$(shellcheck --version; sha256sum "${read_by_others[@]}")
  for script in $scripts; do
    stamp=$stamps/$({ echo "$common"; sha256sum "$script"; } | sha256sum | cut -c1-40)
    findings=
    if [ ! -e "$stamp" ]; then
      findings=$(shellcheck -x "$script" 2>&1) || findings=${findings:-shellcheck ended with status $?}
      [ -n "$findings" ] || : 2>/dev/null >"$stamp"
    fi
    check "$script passes shellcheck" "$findings"
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
findings=$(project_files | grep '\.py$' | xargs /usr/bin/env python3 -c '
import ast, sys
for path in sys.argv[1:]:
    try:
        ast.parse(open(path).read(), path)
    except (SyntaxError, ValueError) as error:
        print(f"{path}: {error}")' 2>&1)
check "Python files parse" "$findings"
finish
