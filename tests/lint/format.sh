#!/usr/bin/env bash
# C and C++ files are formatted with the repository's .clang-format, and public headers stand alone.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
cd "$top_srcdir" || exit 1
files=$(project_files | grep -E '\.(h|hpp|c|cpp)$' | grep -v '^build')
if command -v clang-format >/dev/null; then
  # One process for many files: to start one for each takes three times as long.
  said=$(xargs -n 100 clang-format --dry-run -Werror 2>&1 >/dev/null <<<"$files") && status=0 || status=$?
  findings=$(sed -nE 's/^([^: ]+):[0-9]+:[0-9]+: .*/\1: run clang-format -i on it/p' <<<"$said" | sort -u)
  # One that was killed, or that cannot read a file or its settings, must not pass for a formatted tree.
  if [ "$status" -ne 0 ] && [ -z "$findings" ]; then findings="clang-format ended with status $status: $said"; fi
  check "C and C++ files are formatted with .clang-format" "$findings"
else
  skip "C and C++ files are formatted with .clang-format" "clang-format is not installed"
fi
# shellcheck disable=SC2016  # expanded by awk
findings=$(project_files | grep -E '\.(h|hpp|c|cpp)$' | xargs awk '
  FNR == 1 && file != "" && !named { print file }
  FNR == 1 { file = FILENAME; named = 0 }
  FNR <= 3 && /SPDX-License-Identifier: Apache-2.0/ { named = 1 }
  END { if (file != "" && !named) print file }')
check "every C and C++ file names its licence" "$findings"
# alone COMPILER OPTION... HEADER: what the compiler says of a header by itself. ccache, where it is, remembers those that have not changed.
object=$(mktemp)
trap 'rm -f "$object"' EXIT
cached=()
if command -v ccache >/dev/null; then cached=(ccache); fi
alone() { "${cached[@]}" "$@" -c -o "$object" 2>&1; }
for header in checkpoint/include/dlckpt.h checkpoint/include/dlckpt_batch.h launcher/collectives/include/dllearner.h launcher/pool/include/dlpool.h; do
  check "$header compiles alone as C99" "$(alone gcc -std=c99 -Wall -Wextra -Wpedantic -Werror -x c "$header")"
  check "$header compiles alone as C++" "$(alone g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -x c++ "$header")"
done
for header in checkpoint/include/dlckpt.hpp checkpoint/include/dlckpt_batch.hpp checkpoint/include/dlckpt_read.hpp launcher/pool/include/dlpool.hpp; do
  findings=$(for standard in c++17 c++20; do
    alone g++ -std=$standard -Wall -Wextra -Wpedantic -Wshadow -Werror -fno-exceptions -fno-rtti -x c++ "$header"
  done)
  check "$header compiles alone as C++17 and C++20, also without exceptions" "$findings"
done
findings=$(grep -ohE '\bdlckpt_[a-z_]+\(' checkpoint/include/dlckpt{,_batch,_read}.h | tr -d '(' | sort -u |
  while read -r name; do
    grep -qF -- "$name" checkpoint/include/dlckpt{,_batch,_read}.hpp || echo "$name is in none"
  done)
check "the headers for C++ reach each function of the C headers" "$findings"
findings=$(gcc -E -P -x c checkpoint/include/dlckpt.h | sed -n '/^typedef struct dlckpt_options {/,/^}/p' | sed '$d' |
  grep -oE '[a-z_]+[,;]' | tr -d ',;' | while read -r option; do
  grep -q "o\.$option = " checkpoint/include/dlckpt.hpp || echo "Options of dlckpt.hpp has no $option"
done)
check "Options of dlckpt.hpp has each option of dlckpt.h" "$findings"
findings=$(for f in $(project_files | grep -E '^(common|frameworks)/.*\.h$'); do
  alone g++ -std=c++17 -I. -w -x c++ "$f" # -w: `#pragma once` in a file that is compiled
done)
check "headers of the base rooms compile alone" "$findings"
# shellcheck disable=SC2016  # expanded by awk
long=$(project_files | grep -E '\.(h|hpp|c|cpp|py|sh|bash)$' | xargs wc -l | awk '$2 != "total" && $1 > 600 { print $2 " has " $1 " lines" }')
check "no source file is longer than 600 lines" "$long"
finish
