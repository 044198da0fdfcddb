#!/usr/bin/env bats
# What CONTRIBUTING.md says of the build and of what is added to it, done as it is written in a copy of the tree.
# shellcheck disable=SC2016  # expanded by nobody, or by the scripts that are written
bats_require_minimum_version 1.5.0
: "${top_srcdir:=$(cd "$(dirname "$BATS_TEST_FILENAME")/../.." && pwd)}"
: "${top_builddir:=$top_srcdir/build}"
# shellcheck source=tests/lib/copy_tree.bash
source "$(dirname "$BATS_TEST_FILENAME")/../lib/copy_tree.bash"

setup_file() {
  export MAKEFLAGS=''
  copy_tree "$BATS_FILE_TMPDIR"
  export tree built
  # "To add a framework": a folder is copied, and no other file is edited.
  cp -r "$tree/frameworks/sklearn" "$tree/frameworks/copied"
  mv "$tree/frameworks/copied/sklearn.toml" "$tree/frameworks/copied/copied.toml"
  cp -r "$tree/frameworks/paddle" "$tree/frameworks/endpoints"
  sed 's/PADDLE_/COPIED_/g' "$tree/frameworks/paddle/paddle.toml" >"$tree/frameworks/endpoints/endpoints.toml"
  rm "$tree/frameworks/endpoints/paddle.toml"
}

@test "make -j all stage, in one command, installs what it has built, and the folder of a framework that was only copied" {
  grep -qxF "prefix = $top_builddir/stage" "$top_builddir/Makefile" || skip "this build is not configured for its own stage/"
  local program
  cd "$tree"
  sed -i 's/state, train step, checkpoint and learners of jobs/state of jobs in the copy/' launcher/ctl/dlctl.cpp
  touch checkpoint/client/restorer.cpp slurm-plugin/spank/step_facts.cpp
  make -j4 -C "$built" all stage >"$BATS_TEST_TMPDIR/made" 2>&1 || { tail -n 40 "$BATS_TEST_TMPDIR/made" >&2; false; }
  grep -qE '^ +CXX +(launcher/ctl/dlctl|joined/launcher_ctl_dlctl-[0-9]+).o$' "$BATS_TEST_TMPDIR/made"
  run ! grep -E '^ +(CC|CXX|CCLD|CXXLD|GEN) ' "$built/stage.log" # nothing was left to build when it began to install
  for program in $(make -s -C "$built" print-installed-programs); do
    program=${program##*/}
    [ -x "$built/stage/bin/$program" ] || [ -x "$built/stage/sbin/$program" ] || { echo "$program is not installed" >&2; false; }
  done
  "$built/stage/bin/dlctl" --help | grep -q 'state of jobs in the copy'
  [ -e "$built/stage/share/slurm-dl/frameworks.d/copied.toml" ] && [ -e "$built/stage/share/slurm-dl/frameworks.d/endpoints.toml" ] || false
  printf '[frameworks]\ncatalogue = ["%s"]\n' "$built/stage/share/slurm-dl/frameworks.d" >"$BATS_TEST_TMPDIR/dl.toml"
  DL_CONFIG=$BATS_TEST_TMPDIR/dl.toml "$built/stage/bin/dlctl" frameworks --no-probe | grep -q '^copied '
}

# file_of PROGRAM ROW: the first file that the table of "To add a subcommand" has for the program in the row.
file_of() {
  local table column
  table=$(sed -n '/^## To add a subcommand$/,/^## To add a flag/p' "$top_srcdir/CONTRIBUTING.md" | grep '^|')
  column=$(head -n 1 <<<"$table" | tr '|' '\n' | grep -nF "of \`$1\`" | cut -d: -f1)
  grep -F "| $2 |" <<<"$table" | cut -d'|' -f"$column" | grep -oE '`[^`]+`' | head -n 1 | tr -d '`' | sed 's/NAME/greet/'
}
# after_last PATTERN CHANGE FILE: writes the last line with the pattern a second time, below itself, with the change.
after_last() {
  local line
  line=$(grep -nE -- "$1" "$3" | tail -n 1 | cut -d: -f1)
  [ -n "$line" ] || { echo "$3 has no line with: $1" >&2; return 1; }
  sed -i -E "$line{p;$2}" "$3"
}
# the_subcommand PROGRAM FILE: one that says hello.
the_subcommand() {
  local header namespace
  header=$(file_of "$1" 'its declaration')
  namespace=$(grep -oE '^namespace [a-z:]+' "$header")
  {
    printf '%s\n' '// SPDX-License-Identifier: Apache-2.0' "// $1 greet: says hello." '#include <cstdio>' '' "#include \"$header\"" '' "$namespace {" ''
    if [ "$1" = dlckpt ]; then
      printf '%s\n' 'void add_greet(CommandLine* line, int* exit_code) {' \
        '  line->subcommand("greet", "Say hello")->action([=] { *exit_code = std::puts("hello") < 0; });'
    else
      printf '%s\n' 'Run add_greet(CommandLine* /*line*/) {' '  return [] {' '    std::puts("hello");' '    return Status();' '  };'
    fi
    printf '%s\n' '}' '' "}  // $namespace"
  } >"$2"
}
# add PROGRAM ROW: does what a row of the table says.
add() {
  local file
  file=$(file_of "$1" "$2")
  [ -n "$file" ] || { echo "the table has no file of $1 in the row: $2" >&2; return 1; }
  case $2 in
    'the subcommand') the_subcommand "$1" "$file" ;;
    'its declaration') after_last '^(Run|void) add_[a-z]+\(' 's/add_[a-z]+/add_greet/' "$file" ;;
    'its row')
      after_last '^ +(\{"[a-z]+", ".*", add_[a-z]+\},|add_[a-z]+\(&line, &exit_code\);)$' 's/"[a-z]+"/"greet"/; s/add_[a-z]+/add_greet/' "$file"
      ;;
    'its line in the build') after_last "%D%/.*(migrate|import|import_command)\\.cpp \\\\\$" 's/migrate|import/greet/' "$file" ;;
    'its section') sed -i -e "s/^\\.SH DESCRIPTION/.br\\n.B $1 greet\\n&/" -e '0,/^\.SS /s//.SS greet\nPrints hello.\n&/' "$file" ;;
    'its words for bash') # in the list of all, in the pattern that dlckpt's has, and with its own options
      sed -i -E -e "s/(words=\"|options=')(status|run|ls) /\\1greet \\2 /" -e 's/ ls \| show/ greet | ls | show/' \
        -e '0,/^ +(status|run|ls)\)/s//      greet) words="--help" options="--help" ;;\n&/' "$file"
      ;;
    'its tests')
      case $file in
        *.sh) sed -i "\$i expect \"greet says hello\" 0 '^hello\$' greet" "$file" ;;
        *) printf '\n@test "greet says hello" {\n  run "$%s" greet\n  [ "$output" = hello ]\n}\n' "$1" >>"$file" ;;
      esac
      ;;
    *) echo "this test does not know the row: $2" >&2; return 1 ;;
  esac
}
# lint NAME: what tests/lint/NAME.sh says of the copy.
lint() { top_srcdir=$tree top_builddir=$built bash "tests/lint/$1.sh" 2>/dev/null; }

@test "to add a subcommand: the files of the table, and no other, make one of dlctl, dlckpt and dlsim, and the lints see what is missing" {
  command -v automake >/dev/null || skip "automake is not installed"
  local program row rows missing what said late=('its section' 'its words for bash' 'its tests')
  cd "$tree"
  mapfile -t rows < <(sed -n '/^## To add a subcommand$/,/^## To add a flag/p' CONTRIBUTING.md | sed -nE 's/^\| ((the|its) [^|]*) \|.*/\1/p')
  [ ${#rows[@]} -eq 7 ]
  for program in dlctl dlckpt dlsim; do
    for row in "${rows[@]}"; do
      [[ " ${late[*]} " == *" $row "* ]] || add "$program" "$row"
    done
  done
  make -s -C "$built" Makefile # by itself: config.status uses files that make -j may have open
  make -s -C "$built" -j2 launcher/ctl/dlctl checkpoint/dlckpt slurm-plugin/sim/dlsim man/dl-frameworks.7
  mkdir -p "$built/stage/bin"
  cp "$built"/{launcher/ctl/dlctl,checkpoint/dlckpt,slurm-plugin/sim/dlsim} "$built/stage/bin/"
  # Each of the last three rows is asked for.
  missing=$(lint options | grep '^not ok ')
  for program in dlctl dlckpt dlsim; do
    [ "$("$built/stage/bin/$program" greet)" = hello ]
    for what in "bash completes every subcommand of $program" "$program(1) has $program greet with every option" "$program greet has a test"; do
      grep -qF " - $what" <<<"$missing" || { echo "not missed: $what; but: $missing" >&2; false; }
    done
    for row in "${late[@]}"; do add "$program" "$row"; done
  done
  said=$(lint options)
  [ "$(grep -cE '^ok .* greet' <<<"$said")" -eq 9 ] || { grep -A3 greet <<<"$said" >&2; false; }
  run ! grep -E '^not ok .*(dlctl|dlckpt|dlsim)' <<<"$said"
  said=$(lint tables)
  [ "$(grep -cE '^ok .* names the files of a subcommand in ' <<<"$said")" -eq 3 ]
  grep -q '^ok .* framework copied is complete$' <<<"$said"
  grep -q '^ok .* framework endpoints is complete$' <<<"$said"
  run ! grep -A5 '^not ok' <<<"$said"
  for program in dlckpt dlsim; do top_srcdir=$tree top_builddir=$built bats --tap -f 'greet' "tests/cli/$program.bats" </dev/null; done
}
