#!/usr/bin/env bash
# Golden launch plans: each tests/plan/cases/*.case holds an environment, options, and the plan they must give.
#   # what the case shows
#   NAME=value            a variable of the environment (any number)
#   > OPTIONS -- COMMAND  arguments of plan_print, as a shell reads them
#   ---
#   the expected output, standard error included
# UPDATE=1 writes the plans as they are now into the cases; look at the difference before you commit it.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
printer=$top_builddir/tests/plan/plan_print
cases=$top_srcdir/tests/plan/cases
folders=("$top_srcdir"/frameworks/*/)
for file in "$cases"/*.case; do
  title=$(sed -n '1s/^# //p' "$file")
  head=$(sed '/^---$/,$d' "$file")
  expected=$(sed '1,/^---$/d' "$file")
  mapfile -t variables < <(grep -E '^[A-Za-z_][A-Za-z0-9_]*=' <<<"$head")
  # Case files are part of the project: their option line may be quoted as in a shell.
  eval "arguments=($(sed -n 's/^> //p' <<<"$head"))"
  # shellcheck disable=SC2154  # set by the eval above
  actual=$(env -i "${variables[@]}" "$printer" "${folders[@]/#/--catalogue=}" "${arguments[@]}" 2>&1 |
    sed 's/\(is not a known framework; known:\) .*/\1 .../')  # a case does not change with each framework
  if [ -n "${UPDATE:-}" ]; then
    printf '%s\n---\n%s\n' "$head" "$actual" >"$file.new" && mv "$file.new" "$file"
    ok "$title (written)"
  elif [ "$actual" = "$expected" ]; then
    ok "$title"
  else
    not_ok "$title" "$(basename "$file"): $(diff <(printf '%s\n' "$expected") <(printf '%s\n' "$actual"))"
  fi
done
# The JSON of the same plans is JSON, and tells the same.
for file in "$cases"/*.case; do
  head=$(sed '/^---$/,$d' "$file")
  sed -n '/^---$/,$p' "$file" | sed -n 2p | grep -q '^error: ' && continue
  mapfile -t variables < <(grep -E '^[A-Za-z_][A-Za-z0-9_]*=' <<<"$head")
  eval "arguments=($(sed -n 's/^> //p' <<<"$head"))"
  json=$(env -i "${variables[@]}" "$printer" "${folders[@]/#/--catalogue=}" --json "${arguments[@]}" 2>&1)
  ranks=$(sed '1,/^---$/d' "$file" | sed -n '/^  rank  node/,/^$/p' | grep -cE '^ +[0-9]+ ')
  check "JSON: $(sed -n '1s/^# //p' "$file")" "$(jq -e --argjson n "$ranks" \
    '.world_size == $n and (.learners | length) == $n and ([.learners[].rank] == [range($n)])' <<<"$json" 2>&1 | grep -v '^true$')"
done
finish
