#!/usr/bin/env bash
# Tests wait for events, not for time to pass.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
cd "$top_srcdir" || exit 1

# A wait of 0.3 s or more in a test says on its line, or in a comment above, why it waits for no event: it shows that nothing happens, or knows
# of no event. Shorter ones are the steps of loops that look for an event; 30 s and more is nobody's wait, but a process that is to be ended.
# A sleep in quotes, behind exec or in the background belongs to a program that the test starts; what does not begin with blanks in a bats
# file, to a script that it writes.
# shellcheck disable=SC2016  # awk expands it
sleeps='
  function product(text) { gsub(/[^0-9.*]/, "", text); split(text, factor, "*"); return factor[1] * (factor[2] == "" ? 1 : factor[2]) }
  function seconds(pattern, in_a_second,   text) {
    if (!match($0, pattern)) return
    text = substr($0, RSTART, RLENGTH)
    sub(/.*\(/, "", text)
    longest = product(text) / in_a_second
  }
  # The line without what is quoted, and without its comment; quote: the one that is open. Sets said for a comment.
  function unquoted(line,   at, c, kept) {
    for (at = 1; at <= length(line); at++) {
      c = substr(line, at, 1)
      if (c == "\\" && quote != "\047") at++
      else if (quote != "") { if (c == quote) quote = "" }
      else if (c == "\"" || c == "\047") { quote = c; kept = kept "Q" }
      else if (c == "#" && (at == 1 || substr(line, at - 1, 1) == " ")) { said = 1; break }
      else kept = kept c
    }
    return kept
  }
  FNR == 1 { before = quote = "" }
  /^(@test|}|[a-z_]+\(\))/ { quote = "" }
  {
    longest = said = 0
    if (FILENAME ~ /\.(cpp|h)$/) {
      said = before ~ /^ *\/\// || /[;{})] +\/\/ /
      seconds("sleep_for\\((std::chrono::)?milliseconds\\([0-9]+", 1000)
      seconds("sleep_for\\((std::chrono::)?seconds\\([0-9]+", 1)
      seconds("usleep\\([0-9]+( \\* [0-9]+)?\\)", 1e6)
      seconds("[^_a-z]sleep\\([0-9]+\\)", 1)
    } else if (FILENAME ~ /\.py$/) {
      said = before ~ /^ *#/ || / # /
      seconds("time\\.sleep\\([0-9.]+\\)", 1)
    } else if (/^ / || FILENAME !~ /\.(bats|bash)$/) {
      line = unquoted($0)
      if (before ~ /^ *#/) said = 1
      while (match(line, /(^ *|[;&|({] *|(do|then|else) )sleep [0-9.]+/)) {
        text = substr(line, RSTART, RLENGTH); line = substr(line, RSTART + RLENGTH)
        sub(/.*sleep /, "", text)
        if (line !~ /^ *&([^&]|$)/ && text + 0 > longest) longest = text + 0
      }
    }
    if (longest >= 0.3 && longest < 30 && !said) print FILENAME ":" FNR ":" $0
    before = $0
  }'
# Benchmarks measure times, and are no tests. Files without an ending are scripts.
files=$(project_files | grep -E '^tests/' | grep -vE '^tests/(bench/|data/|fuzz/corpus/|lint/sleeps.sh$)' | grep -E '\.(bats|bash|sh|py|cpp|h)$|/[^./]+$')
LC_ALL=C
check "a wait of 0.3 s or more in a test says why it waits for no event" "$(xargs awk "$sleeps" <<<"$files")"
# The check itself: these are found.
planted=$(mktemp -d)
trap 'rm -r "$planted"' EXIT
cat >"$planted/a.bats" <<'END'
  sleep 0.5
  true; sleep 1
  (sleep 2; kill $$) &
  for _ in 1 2; do sleep 0.3; done
  echo "it's" 'said "so'; sleep 1
END
echo 'sleep 1' >"$planted/b.sh"
echo '    time.sleep(1.5)' >"$planted/c.py"
cat >"$planted/d.cpp" <<'END'
  ::usleep(400 * 1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  std::this_thread::sleep_for(std::chrono::seconds(2));
END
check "such waits are found in each kind of file" "$([ "$(awk "$sleeps" "$planted"/* | wc -l)" -eq 10 ] || awk "$sleeps" "$planted"/*)"
rm "$planted"/*
cat >"$planted/a.bats" <<'END'
  sleep 0.2
  sleep 20 &
  sleep 60
  exec sleep 20
  sh -c 'echo "one";
    sleep 3; echo two'
  sleep 1 # as its name says
  # Nobody tells.
  sleep 1
sleep 1
END
printf '%s\n' 'time.sleep(0.1)' 'time.sleep(1)  # as its name says' >"$planted/c.py"
printf '%s\n' '  ::usleep(20000);' '  // Nobody tells.' '  ::usleep(1100 * 1000);' >"$planted/d.cpp"
check "others are not" "$(awk "$sleeps" "$planted"/*)"
finish
