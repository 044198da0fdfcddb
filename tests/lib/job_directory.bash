# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
: "${top_srcdir:?}"
# strange_files DIR: what lies in a job directory and is not in the table of common/contract/job_directory.h.
strange_files() {
  comm -23 <(cd "$1" && find . -mindepth 1 -maxdepth 1 -printf '%P\n' | sort) \
    <(sed -nE 's/^constexpr char k[A-Za-z]+\[\] = "(.*)";/\1/p' "$top_srcdir/common/contract/job_directory.h" | sort)
}
