# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
: "${top_srcdir:?}"
# files_of_table: "NAME MODE MOST" of each row of kFiles in common/contract/job_directory.h.
files_of_table() {
  awk '/^constexpr char k[A-Za-z]+\[\] = / { name = $3; sub(/\[\]$/, "", name); split($0, part, "\""); names[name] = part[2] }
    /^    \{k[A-Za-z]+, / { key = $1; gsub(/[{,]/, "", key); most = 0
      if (match($0, /[0-9]+ << [0-9]+/)) { split(substr($0, RSTART, RLENGTH), size, " << "); most = size[1] * 2 ^ size[2] }
      print names[key], $(NF - 1), most }' "$top_srcdir/common/contract/job_directory.h" | tr -d ,
}
# strange_files DIR: what lies in a job directory and has no row in that table, another mode than its row says, less the umask, or
# more bytes than it may have.
strange_files() {
  local table name mode size wanted most
  table=$(files_of_table)
  find "$1" -mindepth 1 -maxdepth 1 -printf '%P %m %s\n' | sort | while read -r name mode size; do
    wanted=$(awk -v name="$name" '$1 == name { print $2 }' <<<"$table")
    if [ -z "$wanted" ]; then
      echo "$name is not in the table"
    elif [ "$mode" != "$(printf %o $((wanted & ~$(umask))))" ]; then
      echo "$name has the mode $mode, not $wanted"
    fi
    most=$(awk -v name="$name" '$1 == name { print $3 }' <<<"$table")
    if [ "${most:-0}" -gt 0 ] && [ "$size" -gt "$most" ]; then echo "$name has $size bytes, more than $most"; fi
  done
}
