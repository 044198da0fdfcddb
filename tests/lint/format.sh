#!/usr/bin/env bash
# C and C++ files are formatted with the repository's .clang-format, and public headers stand alone.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
cd "$top_srcdir" || exit 1
files=$(project_files | grep -E '\.(h|c|cpp)$' | grep -v '^build')
if command -v clang-format >/dev/null; then
  findings=$(for f in $files; do clang-format --dry-run -Werror "$f" >/dev/null 2>&1 || echo "$f: run clang-format -i on it"; done)
  check "C and C++ files are formatted with .clang-format" "$findings"
else
  skip "C and C++ files are formatted with .clang-format" "clang-format is not installed"
fi
findings=$(for f in $(project_files | grep -E '\.(h|c|cpp)$'); do head -n 3 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$f"; done)
check "every C and C++ file names its licence" "$findings"
for header in checkpoint/include/dlckpt.h launcher/collectives/include/dllearner.h; do
  check "$header compiles alone as C99" "$(gcc -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c "$header" 2>&1)"
  check "$header compiles alone as C++" "$(g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ "$header" 2>&1)"
done
findings=$(for f in $(project_files | grep -E '^(common|frameworks)/.*\.h$'); do
  printf '#include "%s"\n' "$f" | g++ -std=c++17 -I. -fsyntax-only -x c++ - 2>&1
done)
check "headers of the base rooms compile alone" "$findings"
long=$(project_files | grep -E '\.(h|c|cpp|py|sh|bash)$' | while read -r f; do
  n=$(wc -l <"$f")
  [ "$n" -le 600 ] || echo "$f has $n lines"
done)
check "no source file is longer than 600 lines" "$long"
finish
