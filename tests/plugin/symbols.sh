#!/usr/bin/env bash
# The plugins export what Slurm looks up and nothing else, and bring no library into Slurm's programs but libc.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"

# examine PLUGIN EXPORTS MORE: extended regular expressions of what must be exported, and of what may be besides.
examine() {
  local so=$top_builddir/slurm-plugin/.libs/$1.so undefined
  check "$1.so was built" "$([ -e "$so" ] || echo "$so is missing")"
  check "$1.so exports its entry points only" "$(nm -D --defined-only "$so" | awk '{print $3}' | grep -vxE "$2|$3")"
  check "$1.so exports all that Slurm needs" "$(for name in ${2//|/ }; do
    nm -D --defined-only "$so" | grep -q " $name$" || echo "$name is missing"
  done)"
  check "$1.so needs no library but libc" "$(readelf -d "$so" | grep NEEDED | grep -vE '\[(libc\.so\.6|ld-linux[^]]*)\]')"
  check "$1.so binds all symbols when it is loaded" "$(readelf -d "$so" | grep -q BIND_NOW || echo "no BIND_NOW")"
  check "$1.so has no search path for libraries" "$(readelf -d "$so" | grep -E 'RPATH|RUNPATH')"
  undefined=$(nm -D --undefined-only "$so" | awk '$1 == "U" {print $2}' | grep -v '@' | grep -vxE '(slurm|spank)_[a-z_]+')
  check "$1.so takes nothing but slurm_* and spank_* from the program that loads it" "$undefined"
  check "$1.so pins nothing in the process (no unique symbols)" "$(nm -D "$so" | awk '$2 == "u"')"
  check "$1.so has no executable stack" "$(readelf -lW "$so" | grep GNU_STACK | grep RWE)"
}
if grep -q 'DL_LDFLAGS = .*-fsanitize' "$top_builddir/Makefile" 2>/dev/null; then
  skip "the plugins' symbols" "built with a sanitizer, whose runtime they need"
else
  examine spank_dl 'plugin_name|plugin_type|plugin_version|dl_release|dl_any_slurm|spank_plugin_version|slurm_spank_init|slurm_spank_init_post_opt|slurm_spank_task_init|slurm_spank_exit|slurm_spank_job_prolog|slurm_spank_job_epilog|slurm_spank_task_init_privileged|slurm_spank_init_failure_mode' none
  examine job_submit_dl 'plugin_name|plugin_type|plugin_version|dl_release|dl_any_slurm|init|fini|job_submit|job_modify' none
  examine job_submit 'plugin_name|plugin_type|plugin_version|dl_release|init|fini|job_submit|job_modify' none
  check "spank_dl.so takes nothing from Slurm but what spank.h has in every version, and the number of that version" \
    "$(nm -D --undefined-only "$top_builddir/slurm-plugin/.libs/spank_dl.so" | awk '{print $2}' | grep -E '^(slurm|spank)_' |
      grep -vxE 'spank_(context|get_item|getenv|job_control_setenv|option_register|setenv|strerror|unsetenv)|slurm_(error|info|api_version)')"
fi
finish
