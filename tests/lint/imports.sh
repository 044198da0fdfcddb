#!/usr/bin/env bash
# The modules of the Python package import only those below them: no circle, also not one that an import inside a function hides.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
cd "$top_srcdir/checkpoint/python/dlckpt" || exit 1

# "MODULE IMPORTED" for each import of the package's own, wherever it stands.
pairs=$(awk '
  { module = FILENAME; sub(/\.py$/, "", module) }
  /^[ \t]*from \.[a-z_]+ import / { name = $2; sub(/^\./, "", name); print module, name }
  /^[ \t]*from \. import / {
    sub(/#.*/, ""); sub(/^[ \t]*from \. import /, ""); n = split($0, names, /[ ,]+/)
    for (i = 1; i <= n; i++) if (names[i] != "") print module, names[i]
  }' ./*.py | sed 's|\./||')
check "the modules of dlckpt import one another" "$([ "$(wc -l <<<"$pairs")" -gt 60 ] || echo "only $(wc -l <<<"$pairs") imports were found")"
check "no module of dlckpt imports one that imports it" "$(tsort <<<"$pairs" 2>&1 >/dev/null)"
check "imports of the package are on one line, and relative, so that this test sees them" \
  "$(grep -nE '^[[:space:]]*(from \. import .*[(\\]|import dlckpt|from dlckpt)' ./*.py | grep -v '^./[a-z_]*.py:[0-9]*:    import dlckpt\.[a-z]*$')"
finish
