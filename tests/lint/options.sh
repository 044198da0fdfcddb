#!/usr/bin/env bash
# What --help of a program says is the truth: each subcommand and each option has its place in the man page and in bash's
# completion, each subcommand a test, and the completion offers nothing else. Completions run as bash runs them.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
cd "$top_srcdir" || exit 1
stage=$top_builddir/stage
PATH=$stage/bin:$stage/sbin:$PATH
if [ ! -x "$stage/bin/dlctl" ]; then
  skip "options are told of in man pages and completions" "the programs are not installed into $stage"
  finish
  exit
fi

# options_of HELP, subcommands_of HELP: the long options, and the subcommands, in what a program prints.
options_of() { grep -oE '^  (-[a-zA-Z],)?--[a-z][a-z0-9-]*(, ?--[a-z][a-z0-9-]*)*' <<<"$1" | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u; }
subcommands_of() { awk '/^Subcommands:/ { on = 1; next } on && /^  [a-z]/ { print $1 }' <<<"$1" | sort; }
# offered FUNCTION WORD...: what bash offers for the last word, one a line.
offered() {
  local function=$1
  shift
  # shellcheck disable=SC2034  # the function reads them
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  "$function" 2>/dev/null
  printf '%s\n' "${COMPREPLY[@]}" | grep . | sort -u
}
compopt() { :; } # bash knows it only while it completes
# compare NAME WANTED OFFERED
compare() { check "$1" "$(diff <(echo "$2") <(echo "$3") | sed -n 's/^< /it does not know: /p; s/^> /it offers what is not in --help: /p')"; }
# lacking PAGE OPTIONS: those of them that the text of a man page does not have.
lacking() {
  local option
  grep -vxE -- '--(help|version)' <<<"$2" | while read -r option; do
    grep -qE -- "(^|[^-a-z])$option([^-a-z]|\$)" <<<"$1" || echo "the page does not have $option"
  done
}
# is_tested PROGRAM SUBCOMMAND: a line of a test has the one behind the other; tests/cli/dlctl.sh leaves out the program.
is_tested() {
  grep -rqE -- "$1(\"|\})? (-[a-z-]+ )*$2( |\$|\)|\"|')" tests/cli tests/cluster || { [ "$1" = dlctl ] && grep -qE "^expect .*' $2( |\$)" tests/cli/dlctl.sh; }
}

while read -r program section folder; do
  # shellcheck disable=SC1090  # one of those below
  . "$folder/completion/$program"
  page=$(sed 's/\\-/-/g; s/\\f[A-Z]//g' "man/$program.$section.in")
  help=$("$program" --help)
  check "$program --help has options" "$([ -n "$(options_of "$help")" ] || echo "$help")"
  check "$program($section) has every option of $program" "$(lacking "$page" "$(options_of "$help")")"
  subcommands=$(subcommands_of "$help")
  if [ -z "$subcommands" ]; then
    compare "bash completes every option of $program" "$(options_of "$help")" "$(offered "_$program" "$program" -- | grep -vx -- --)"
    continue
  fi
  compare "bash completes every subcommand of $program" "$subcommands" "$(offered "_$program" "$program" '' | grep -v '^-')"
  for sub in $subcommands; do
    help=$("$program" "$sub" --help)
    below=$(subcommands_of "$help")
    options=$(options_of "$help")
    completed=$(offered "_$program" "$program" "$sub" --)
    for deeper in $below; do
      options+=$'\n'$(options_of "$("$program" "$sub" "$deeper" --help)")
      completed+=$'\n'$(offered "_$program" "$program" "$sub" "$deeper" --)
      check "bash completes $program $sub $deeper" "$(offered "_$program" "$program" "$sub" "$deeper" | grep -qx "$deeper" || echo "it is not offered")"
      check "$program($section) has $program $sub $deeper" "$(grep -qE "^\.SS $sub $deeper\$" <<<"$page" || echo "there is no .SS $sub $deeper")"
    done
    compare "bash completes every option of $program $sub" "$(sort -u <<<"$options")" "$(grep '^--' <<<"$completed" | sort -u)"
    findings=$(lacking "$page" "$options")
    grep -qE "^\.SS (.* )?$sub(,| |\$)" <<<"$page" || findings+=$'\n'"no heading .SS names it"
    sed -n '/^\.SH SYNOPSIS/,/^\.SH DESCRIPTION/p' <<<"$page" | grep -qE "^\.BR? .*\b$sub\b" || findings+=$'\n'"its SYNOPSIS does not have it"
    check "$program($section) has $program $sub with every option" "$findings"
    check "$program $sub has a test" "$(is_tested "$program" "$sub" || echo "no line of tests/cli or tests/cluster runs it")"
  done
done <<'END'
dlctl 1 launcher/ctl
dlckpt 1 checkpoint
dlsim 1 slurm-plugin/sim
dlrun 1 launcher
dlpolicyd 8 slurm-plugin/policyd
END
finish
