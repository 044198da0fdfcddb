#!/usr/bin/env bats
# dlctl beside any Slurm: it links no libslurm, and loads the module for the Slurm that answers. `scontrol --version` is
# recorded text here; a Slurm that answers is asked in tests/cluster.
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

# An installed tree that was moved: the program, and modules beside it.
setup() {
  cd "$BATS_TEST_TMPDIR" || return 1
  mkdir -p moved/bin moved/lib/slurm-dl path cat
  cp "$top_srcdir"/frameworks/*/*.toml cat/
  cp "$top_builddir/launcher/ctl/dlctl" moved/bin/
  dlctl=$PWD/moved/bin/dlctl module=$top_builddir/slurm-plugin/observe/.libs/observe.so
  printf '[tenants.vision]\nquota = 2\n[frameworks]\ncatalogue = ["%s"]\n' "$PWD/cat" >dl.toml
  export DL_CONFIG=$PWD/dl.toml SLURM_CONF=$PWD/no-slurm.conf
}
# slurm_is VERSION: what `scontrol --version` says.
slurm_is() {
  printf '#!/bin/sh\necho "slurm %s"\n' "$1" >path/scontrol
  chmod 755 path/scontrol
  PATH=$PWD/path:$PATH
}
# put VERSION FILE: a module for a version. In a tree that is not moved PKGLIBDIR lies elsewhere below the prefix, too.
put() {
  mkdir -p "moved/lib/slurm-dl/slurm-$1"
  cp "$2" "moved/lib/slurm-dl/slurm-$1/observe.so"
}
# one_sentence TEXT: no more than a line.
one_sentence() { [ "$(wc -l <<<"$1")" -eq 1 ] || { printf 'more than one line: %s\n' "$1" >&2; return 1; }; }
needs_module() { [ -e "$module" ] || skip "built without libslurm"; }
lib_below_prefix() { grep -qE '^libdir = \$\{exec_prefix\}/lib$' "$top_builddir/Makefile" || skip "configured with another --libdir"; }

@test "dlctl links no libslurm, and works where there is none" {
  run -0 readelf -d "$dlctl"
  [[ $output != *libslurm* ]] || { echo "$output"; false; }
  mkdir -p dl-local-7
  printf '{"time_ms":1790000001000,"attempt":1,"state":"COMPLETED","reason":"all learners ended well"}\n' >dl-local-7/events.jsonl
  slurm_is 99.11.1
  run -0 "$dlctl" status local-7
  contains "$output" '^state +COMPLETED'
  run -0 "$dlctl" status --dir "$PWD/dl-local-7" local-7
  run -0 "$dlctl" config check "$DL_CONFIG"
}

@test "where no module is for this Slurm, one sentence says what was looked for, what is there and what to do" {
  lib_below_prefix
  slurm_is 99.11.1
  for command in "quota" "quota reclaim --dry-run 12"; do
    # shellcheck disable=SC2086  # words on purpose
    run -1 "$dlctl" $command
    one_sentence "$output"
    contains "$output" 'Slurm 99\.11 runs here, .*/moved/lib/slurm-dl/slurm-99\.11/observe\.so is not there'
    contains "$output" 'make install-slurm-module$'
  done
  touch other
  put 98.05 other
  run -1 "$dlctl" quota
  contains "$output" 'there are modules for Slurm (.*, )?98\.05'
}

@test "a file that is no module, or one of another Slurm, is refused with one sentence" {
  lib_below_prefix
  slurm_is 99.11.1
  echo 'not a library' >other
  put 99.11 other
  run -1 "$dlctl" quota
  one_sentence "$output"
  contains "$output" 'the module for Slurm 99\.11, .*/slurm-99\.11/observe\.so, does not load: '
  needs_module
  put 99.11 "$module"
  run -1 "$dlctl" quota
  one_sentence "$output"
  contains "$output" '/slurm-99\.11/observe\.so is of slurm-dl [0-9.]+ for Slurm [0-9]{2}\.[0-9]{2}, and this dlctl needs'
}

@test "where scontrol is not found, that is said" {
  PATH=$PWD/path run -1 "$dlctl" quota
  one_sentence "$output"
  contains "$output" scontrol
}

@test "--version tells for which Slurm versions there are modules" {
  lib_below_prefix
  touch other
  put 98.05 other
  put 99.11 other
  run -0 "$dlctl" --version
  contains "${lines[0]}" '^slurm-dl [0-9]'
  contains "${lines[1]}" '^for any Slurm; quota and why: for Slurm (.*, )?98\.05, 99\.11$'
}

@test "the module exports its entry alone, and finds a libslurm that lies where the linker would not look" {
  needs_module
  [ "$(nm -D --defined-only "$module" | awk '{print $3}')" = dl_observe_module ]
  folder=$(sed -nE 's/^SLURM_LIBS = -L([^ ]+) .*/\1/p' "$top_builddir/Makefile")
  [ -n "$folder" ] || skip "configured with the Slurm of the system"
  for file in "$module" "$top_builddir/slurm-plugin/policyd/dlpolicyd"; do
    contains "$(readelf -d "$file")" "(RPATH|RUNPATH).*$folder"
  done
}
