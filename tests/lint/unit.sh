#!/usr/bin/env bash
# Unit tests mirror the rooms: whoever changes a room finds its tests by its name, and each owner of dlrun's state has some.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
cd "$top_srcdir" || exit 1
files=$(project_files)

# tests/unit/ROOM_TOPIC.cpp: ROOM is the last part of a folder's path, with _ for -, at any depth outside tests (common and checkpoint for all
# that is in them). The test includes a header of that folder or of one below it, itself or by a header beside it.
folders=$(grep -E '^[^/]+/.*\.(h|hpp)$' <<<"$files" | grep -vE '^tests/|/example/' | awk '
  { while (sub(/\/[^\/]*$/, "")) print }' | sort -u)
includes() { # FILE: what it includes of this tree, also by headers of tests/unit
  grep -ohP '^#include "\K[^"]+' "$1" | while read -r header; do
    echo "$header"
    [[ $header != tests/unit/* ]] || includes "$header"
  done
}
findings=$(grep -E '^tests/unit/.*\.cpp$' <<<"$files" | while read -r file; do
  name=$(basename "$file" .cpp)_
  mapfile -t rooms < <(while read -r folder; do
    room=${folder##*/}
    [[ $name != "${room//-/_}"_* ]] || echo "$folder"
  done <<<"$folders")
  if [ ${#rooms[@]} -eq 0 ]; then
    echo "$file: its name begins with no folder's"
  else
    included=$(includes "$file")
    for room in "${rooms[@]}"; do ! grep -q "^$room/" <<<"$included" || continue 2; done
    echo "$file: includes nothing of ${rooms[*]}"
  fi
done)
check "each unit test is named after the room that it tests" "$findings"

lists=$(cat tests/unit/*.inc)
check "each unit test is in a program" "$(grep -E '^tests/unit/.*\.cpp$' <<<"$files" | while read -r file; do
  grep -qE "/$(basename "$file" .cpp)\.cpp( |\$)" <<<"$lists" || echo "$file is in no list of tests/unit/*.inc"
done)"

# The owners: classes of launcher/supervise with private state.
# CLASS | why no unit test names it
exceptions='
RunStep    | a part of next(), whose tests are supervise_run_state.cpp and supervise_run_stop.cpp
Supervisor | the program around all owners: tests/cli and tests/cluster start it as dlrun
'
# shellcheck disable=SC2016  # awk expands it
owners=$(grep -E '^launcher/supervise/.*\.h$' <<<"$files" | xargs awk '
  /^(class|struct) [A-Za-z:]+.*\{$/ { class = $2 }
  /^};/ { class = "" }
  /^ private:/ && class != "" { print class }')
# Names in comments do not count.
code=$(grep -E '^tests/unit/.*\.(cpp|h)$' <<<"$files" | xargs sed -E 's|//.*||')
check "classes of launcher/supervise with private state are found" "$(grep -qx StopController <<<"$owners" || echo "StopController is none of: $owners")"
excepted() { awk -F'|' -v class="$1" 'NF == 2 { gsub(/ /, "", $1); if ($1 == class && $2 ~ /[a-z]/) found = 1 } END { exit !found }' <<<"$exceptions"; }
check "each owner of launcher/supervise has a unit test" "$(while read -r class; do
  grep -qw "$class" <<<"$code" || excepted "$class" || echo "no test of tests/unit names $class"
done <<<"$owners")"
check "the exceptions are owners without a unit test" "$(awk -F'|' 'NF == 2 { print $1 }' <<<"$exceptions" | while read -r class; do
  grep -qx "$class" <<<"$owners" || echo "$class is no owner"
  ! grep -qw "$class" <<<"$code" || echo "$class has a unit test"
done)"
finish
