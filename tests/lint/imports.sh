#!/usr/bin/env bash
# The modules of the Python packages import only those below them: no circle, also not one that an import inside a function hides.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
cd "$top_srcdir" || exit 1
root=$PWD

# FOLDER, and the least number of imports that this test has to see there.
while read -r folder least; do
  cd "$root/$folder" || exit 1
  name=${folder#*/python/}
  top=${name%%/*} name=${name//\//.}
  # "MODULE IMPORTED" for each import of the package's own, wherever it stands.
  pairs=$(awk '
    { module = FILENAME; sub(/\.py$/, "", module) }
    /^[ \t]*from \.[a-z_]+ import / { name = $2; sub(/^\./, "", name); print module, name }
    /^[ \t]*from \. import / {
      sub(/#.*/, ""); sub(/^[ \t]*from \. import /, ""); gsub(/ as [a-z_]+/, ""); n = split($0, names, /[ ,]+/)
      for (i = 1; i <= n; i++) if (names[i] != "") print module, names[i]
    }' ./*.py | sed 's|\./||')
  check "the modules of $name import one another" "$([ "$(wc -l <<<"$pairs")" -ge "$least" ] || echo "only $(wc -l <<<"$pairs") imports were found")"
  check "no module of $name imports one that imports it" "$(tsort <<<"$pairs" 2>&1 >/dev/null)"
  check "imports of $name are on one line, and relative, so that this test sees them" \
    "$(grep -nE "^[[:space:]]*(from \. import .*[(\\\\]|from \.\.|import $top\b|from $top\b)" ./*.py | grep -vE "^[./a-z_]*.py:[0-9]*:    import $top(\.[a-z]*)?\$")"
done <<'END'
checkpoint/python/dlckpt 60
launcher/python/dl 10
launcher/pool/python/dlpool 10
launcher/python/dl/migrate 50
END
finish
