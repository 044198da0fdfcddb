#!/usr/bin/env bash
# Every program and plugin has a man page, and every page passes mandoc's lint.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
pages=$(cd "$top_builddir" && find man -maxdepth 1 -name '*.[1-8]' | sort)
check "there are man pages in the build tree" "$([ -n "$pages" ] || echo "none below $top_builddir/man")"
for page in $pages; do
  if command -v mandoc >/dev/null; then
    check "$page passes mandoc's lint" "$(mandoc -T lint -W warning "$top_builddir/$page" 2>&1 | grep -v 'outdated mandoc.db')"
  else
    skip "$page passes mandoc's lint" "mandoc is not installed"
  fi
  check "$page has no unsubstituted @NAME@" "$(grep -nE '@[A-Za-z]+@' "$top_builddir/$page")"
done
findings=
for program in $(MAKEFLAGS='' make -s -C "$top_builddir" print-installed-programs); do
  name=$(basename "$program")
  ls "$top_builddir"/man/"$name".[18] >/dev/null 2>&1 || findings+="$name has no man page in section 1 or 8"$'\n'
done
check "every installed program has a man page" "$findings"
for plugin in spank_dl job_submit_dl; do
  check "$plugin has a man page" "$([ -e "$top_srcdir/man/$plugin.8.in" ] || echo "man/$plugin.8.in is missing")"
done
overview=$(sed 's/\\-/-/g' "$top_srcdir/man/slurm-dl.7.in")
for page in "$top_srcdir"/man/*.in; do
  page=$(basename "$page" .in) name=${page%.*} section=${page##*.}
  [ "$page" != slurm-dl.7 ] || continue
  findings=
  grep -qE "^\.BR $name \($section\)" <<<"$overview" || findings="SEE ALSO of slurm-dl(7) does not name it"
  grep -qF "$name($section)" "$top_srcdir/README.md" || findings+=$'\n'"README.md does not name it"
  check "$name($section) can be found from slurm-dl(7) and README.md" "$findings"
done
listed=$(cd "$top_srcdir" && for f in man/*.in; do echo "${f%.in}"; done)
check "every man/*.in is made" "$(for p in $listed; do [ -e "$top_builddir/$p" ] || echo "$p.in is not in DL_MAN_PAGES"; done)"
finish
