#!/usr/bin/env bash
# The tables are complete: flags, frameworks, metrics, rooms' READMEs, tests. To add something is to add a row everywhere it belongs.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
cd "$top_srcdir" || exit 1

# Flags: the table in slurm-plugin/options.cpp is the truth.
flags=$(grep -oE '"dl-[a-z-]+"' slurm-plugin/options.cpp | tr -d '"' | sort -u)
check "the table of flags has rows" "$([ -n "$flags" ] || echo "none found in slurm-plugin/options.cpp")"
for flag in $flags; do
  name=--$flag
  check "$name is in spank_dl(8)" "$(sed 's/\\-/-/g' man/spank_dl.8.in | grep -qF -- "$name" || echo "not in man/spank_dl.8.in")"
  check "$name is in the README or dl's overview" "$(cat README.md man/slurm-dl.7.in 2>/dev/null | sed 's/\\-/-/g' | grep -qF -- "$name" || echo "neither in README.md nor in man/slurm-dl.7.in")"
  check "$name has a test" "$(grep -rlF -- "$name" tests/unit tests/cli tests/plugin tests/cluster 2>/dev/null | grep -q . || echo "no test mentions it")"
done
documented=$(sed 's/\\-/-/g' man/spank_dl.8.in | grep -oE -- '--dl-[a-z]+(-[a-z]+)*' | sort -u)
check "spank_dl(8) documents no flag that does not exist" "$(for f in $documented; do grep -qx -- "${f#--}" <<<"$flags" || echo "$f"; done)"

# Frameworks: a folder is found, installed and described by itself; what it must have is its entry.
page=$top_builddir/man/dl-frameworks.7
for folder in frameworks/*/; do
  name=$(basename "$folder")
  missing=
  [ -e "$folder$name.toml" ] || missing+="$folder$name.toml is missing"$'\n'
  grep -q '^# .' "$folder$name.toml" || missing+="$folder$name.toml does not begin with a comment that says what it is for"$'\n'
  grep -q '^summary = "' "$folder$name.toml" || missing+="$folder$name.toml has no summary"$'\n'
  grep -qxF ".B ${name//-/\\-}" "$page" || missing+="$name is not in the man page dl-frameworks(7)"$'\n'
  [ ! -d "${folder}example" ] || [ -s "${folder}README.md" ] || missing+="${folder}README.md is missing"$'\n'
  check "framework $name is complete" "$missing"
done

# The job directory: the table of common/contract/job_directory.h is the truth.
files=$(sed -nE 's/^constexpr char k[A-Za-z]+\[\] = "(.*)";/\1/p' common/contract/job_directory.h)
page=$(sed 's/\\-/-/g' man/dl-job-directory.5.in)
check "dl-job-directory(5) lists each file of the table and no other" "$(diff <(sort <<<"$files") \
  <(sed -nE '/^file;written by;when$/,/^\.TE$/s|^([a-z][a-z._]*)/?;.*|\1|p' <<<"$page" | grep -v '^file$' | sort))"
check "dl-job-directory(5) names the version" "$(version=$(sed -nE 's/^constexpr int kVersion = ([0-9]+);/\1/p' common/contract/job_directory.h)
  grep -qE "^Of this page: $version\\." <<<"$page" || echo "not version $version")"

# Metrics of dlpolicyd: the code is the truth.
check "dlpolicyd(8) lists each metric and no other" "$(diff <(grep -hoE '"(dl|trainer)_[a-z_]+"' slurm-plugin/policyd/{metrics,job_counts,job_series}.cpp | tr -d '"' | sort -u) \
  <(sed -nE '/^\.SH METRICS$/,/^\.SH SIGNALS$/s/^\.BR? ((dl|trainer)_[a-z_]+)( .*)?$/\1/p' man/dlpolicyd.8.in | sort))"

# "To add a subcommand" of CONTRIBUTING.md: the files that its table names are there, and each subcommand has its part in them. (Man pages,
# completions and tests: options.sh.)
table=$(sed -n '/^## To add a subcommand$/,/^## To add a flag/p' CONTRIBUTING.md | grep -E '^\| (the|its) ')
for column in 3 4 5; do
  # shellcheck disable=SC2016  # the quotes are Markdown's
  mapfile -t files < <(cut -d'|' -f$column <<<"$table" | grep -oE '`[^`]+`' | tr -d '`')
  folder=$(dirname "${files[0]}") row=${files[2]} build=${files[3]}
  mapfile -t functions < <(grep -oE '\badd_[a-z]+(\}|\(&line)' "$row" | grep -oE 'add_[a-z]+')
  findings=$([ ${#functions[@]} -gt 5 ] || echo "$row has no rows")
  for file in "${files[@]:1}"; do [ -e "$file" ] || findings+=$'\n'"there is no $file"; done
  for function in "${functions[@]}"; do
    source=$(grep -lE "^(Run|void) $function\(CommandLine" "$folder"/*.cpp)
    [ -n "$source" ] || findings+=$'\n'"no file of $folder has $function()"
    grep -qE "^(Run|void) $function\(CommandLine" "$folder"/*.h || findings+=$'\n'"no header of $folder declares $function()"
    grep -qF "/${source##*/}" "$build" || findings+=$'\n'"$build does not name $source"
  done
  check "CONTRIBUTING.md names the files of a subcommand in $folder, and each subcommand is in them" "$findings"
done
# shellcheck disable=SC2016  # the quotes are Markdown's
check "the files of this tree that CONTRIBUTING.md names are there" "$(
  grep -oE '`(checkpoint|common|frameworks|launcher|man|packaging|slurm-plugin|tests)/[A-Za-z0-9_./-]*`' CONTRIBUTING.md | tr -d '`' | sort -u |
    while read -r f; do [[ $f == *NAME* || $f == launcher/common || -e $f || -e $f.h ]] || echo "there is no $f"; done
)"

# CONTRIBUTING.md has figures of the tree, which a script writes.
name="the figures in CONTRIBUTING.md are those of the tree, within a tenth"
if [ -e .git ]; then check "$name" "$(packaging/count-lines --check 2>&1)"; else skip "$name" "this is a tarball: git does not tell which files there are"; fi

# Rooms explain themselves.
for room in launcher common launcher/bind launcher/supervise launcher/collectives slurm-plugin slurm-plugin/network slurm-plugin/policy slurm-plugin/observe slurm-plugin/policyd slurm-plugin/sim checkpoint frameworks man tests packaging; do
  findings=
  check "$room has a README" "$([ -s "$room/README.md" ] || echo "$room/README.md is missing or empty")"
done
# lines_of README: those that count for its limit. Rows of the tables of regress and faults do not, since each fault has one; of bench
# the longest part counts, since each bench has one. README.md itself: tests/cli/readme.bats.
lines_of() {
  case $1 in
    tests/regress/* | tests/faults/*) grep -vc '^|' "$1" ;;
    tests/bench/README.md) awk '/^## / { n = 0 } { if (++n > most) most = n } END { print most }' "$1" ;;
    *) wc -l <"$1" ;;
  esac
}
mapfile -t readmes < <(project_files | grep -E '/README\.md$')
check "the ${#readmes[@]} READMEs of folders have at most 80 lines" "$(for readme in "${readmes[@]}"; do
  lines=$(lines_of "$readme")
  ((lines <= 80)) || echo "$readme has $lines lines"
done)"

# A table of a room's files or folders names all of its code, apart from that of rooms inside with a README of their own: `name` is
# name.h, name.cpp or the folder, `name.h` also name.cpp, `folder/` all that is in it, `a_*` and `name.*` what they match. A subcommand is in
# the table of subcommands instead.
mapfile -t code < <(project_files | grep -E '^(checkpoint|common|launcher|slurm-plugin)/.*\.(h|hpp|c|cpp|py)$' | grep -vE '/example/|/__init__\.py$')
mapfile -t tabled < <(printf '%s\n' "${readmes[@]}" | grep -E '^(checkpoint|common|launcher|slurm-plugin)/' | xargs grep -lE '^\| *(folder or )?(file|room) *\|')
check "there are READMEs with tables of files" "$( ((${#tabled[@]} >= 25)) || echo "only ${#tabled[@]}")"
# names_file FILE: one of the names of a table, in $rows, is that of FILE, whose path is relative to the README's folder.
# shellcheck disable=SC2053  # they are patterns
names_file() {
  local name path
  for name in "${rows[@]}"; do
    for path in "$1" "${1##*/}"; do
      case $name in
        */) [[ $path == "$name"* ]] ;;
        *'*'*) [[ $path == $name || ${path%.*} == $name ]] ;;
        *.h | *.hpp) [[ ${path%.*} == "${name%.*}" ]] ;;
        *.*) [[ $path == "$name" ]] ;;
        *) [[ ${path%.*} == "$name" || $path == "$name"/* ]] ;;
      esac && return
    done
  done
  return 1
}
for readme in "${tabled[@]}"; do
  room=${readme%/*}
  # shellcheck disable=SC2016  # the quotes are Markdown's
  mapfile -t rows < <(grep '^|' "$readme" | grep -oE '`[^` ]+`' | tr -d '`')
  check "the table of $readme names each file" "$(for file in "${code[@]}"; do
    [[ $file == "$room"/* ]] || continue
    inner=${file%/*}
    while [ ! -e "$inner/README.md" ]; do inner=${inner%/*}; done
    [ "$inner" = "$room" ] || continue
    names_file "${file#"$room"/}" || grep -qE '^(Run|void) add_[a-z]+\(CommandLine' "$file" || echo "$file: no row"
  done)"
done

# A file has one responsibility: what is longer than this has two. A public header's contracts take room.
long=$(project_files | grep -E '\.(h|c|cpp|py)$' | grep -vE '^tests/|^checkpoint/include/' | xargs wc -l | awk '$2 != "total" && $1 > 470 { print $2 " has " $1 " lines" }')
check "no file of code is longer than 470 lines" "$long"

# clang-format joins the lines of a comment as soon as one of them is too long: two blanks within a line are left of it.
findings=$(project_files | grep -E '/include/[^/]+\.h(pp)?$' |
  xargs grep -nE '^( \*|/\*|//) [^ ].*[^ ]  +[^ ]|^( \*|//)   [^ ,]+(, [^ ,]+)* +[^ ].*[^ ]  +[^ ]' /dev/null | grep -vE '^[^:]*:[0-9]+:.*\*/$')
check "in public headers each argument, result and rule of a function has a line of its own" "$findings"

# Tests that nobody runs.
listed=$(MAKEFLAGS='' make -s -C "$top_builddir" print-tests)
findings=$(project_files | grep -E '^tests/(cli|cluster|plugin|plan|lint|python|checkpoint)/[^/]+\.(bats|sh)$' |
  while read -r f; do grep -qx "$f" <<<"$listed" || echo "$f is in no list of tests"; done)
check "every test script is run by run-tests" "$findings"

# Nobody fuzzes in each run of the tests, so that a source which has moved would be noticed late.
check "tests/fuzz/run names sources that exist" "$(tests/fuzz/run --sources | while read -r f; do [ -e "$f" ] || echo "there is no $f"; done)"
# The build's objects of these sources, as far as it has them, call no function of ours that none of them has. A build of joined units makes them now.
patterns=$(tests/fuzz/run --sources | sed -nE 's|^(.*)/([^/]+)\.cpp$|^\1/([^/]*-)?\2\\.lo$|p')
mapfile -t joined < <(MAKEFLAGS='' make -s -C "$top_builddir" print-joined-objects 2>/dev/null | grep -E -f <(echo "$patterns"))
if [ ${#joined[@]} -gt 0 ]; then
  made=$(MAKEFLAGS='' make -s -k -C "$top_builddir" -j2 "${joined[@]}" 2>&1) && made=
  check "the objects of what tests/fuzz/run compiles can be made one by one" "$made"
fi
objects=$(tests/fuzz/run --sources | while read -r f; do
  base=$(basename "${f%.*}")
  find "$top_builddir/$(dirname "$f")" -maxdepth 2 \( -name "*-$base.o" -o -name "$base.o" \) 2>/dev/null | head -n 1
done)
symbols() { xargs nm -C "$@" <<<"$objects" 2>/dev/null | sed -nE 's/^ *[0-9a-f]* [A-Za-z] (dl::.*)/\1/p' | sort -u; }
check "tests/fuzz/run names every source that those need" "$([ -n "$objects" ] || echo "no object was found"; comm -23 <(symbols --undefined-only) <(symbols --defined-only) | sed 's/$/ is in none of them/')"

# What PAINS.md names exists: names in quotes are those of tests.
names=$(project_files | grep -E '^tests/(unit|cli|cluster)/' | xargs grep -hoE '^@test ".*" \{|^TEST(_F)?\(.*\)' | sed -E 's/^@test "(.*)" \{.*/\1/; s/^TEST(_F)?\([A-Za-z]+, ([A-Za-z_]+)\)/\2/')
for table in tests/PAINS.md tests/SEEING.md tests/cluster/hours.md; do
  findings=$(grep -E '^\|' $table | sed -E 's/.* \| ([^|]*) \|$/\1/' | grep -oE '"[^"]+"' | tr -d '"' |
    while read -r name; do grep -qxF -- "$name" <<<"$names" || echo "no test is called \"$name\""; done)
  check "the tests that $(basename $table) names exist" "$findings"
done
check "hours.md has all 16 points" "$(diff <(seq 1 16) <(sed -nE 's/^\| ([0-9]+) \|.*("|`).*/\1/p' tests/cluster/hours.md | sort -nu))"
check "SEEING.md has all 23 inputs" "$([ "$(grep -cE '^\| [0-9]+ \|.*"' tests/SEEING.md)" -eq 23 ] || echo "some row is missing or names no test")"
check "PAINS.md has all 26 complaints" "$([ "$(grep -cE '^\| [0-9]+ \|.*("|`)' tests/PAINS.md)" -eq 26 ] || echo "some row is missing or names no test")"

# Each bug that NEWS.md calls fixed has its test.
check "tests/regress/README.md has the test of each Fixed: in NEWS.md" "$(tests/regress/check 2>&1)"

# Each attack that is said to be repelled is tried.
check "tests/cluster/attacks.md has tests that exist, and try what it says" "$(tests/regress/attacks 2>&1)"

# Nothing unfinished is called done, and no path of a developer's machine is left behind.
words=$(project_files | grep -E '\.(h|c|cpp|py|sh|bash|bats|am|ac|m4|inc|in|md|toml)$' | grep -v '^tests/lint/tables.sh$' |
  xargs grep -nE '\b(TODO|FIXME|XXX)\b' /dev/null)
check "no TODO, FIXME or XXX" "$words"
finish
