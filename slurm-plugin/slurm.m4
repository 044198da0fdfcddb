# SYNOPSIS     DL_CHECK_SLURM
# DESCRIPTION  --with-slurm[=PREFIX]: Slurm's public headers (slurm.h, spank.h) and their version, and libslurm of the same PREFIX
#              (lib64, lib or Debian's folder), which dlpolicyd and dlctl's module link, with its path where the linker would not look;
#              --with-slurm-plugindir, --with-slurm-confdir. Default: build the plugins if the headers are found. The plugins are bound to one
#              Slurm release (SPANK: major.minor, job_submit: the exact micro version), so the version is in the summary.
AC_DEFUN([DL_CHECK_SLURM], [
  AC_ARG_WITH([slurm], [AS_HELP_STRING([--with-slurm@<:@=PREFIX@:>@], [build the Slurm plugins @<:@check@:>@])], [], [with_slurm=check])
  AC_ARG_WITH([slurm-plugindir], [AS_HELP_STRING([--with-slurm-plugindir=DIR], [where Slurm looks for plugins @<:@LIBDIR/slurm@:>@])], [], [with_slurm_plugindir=])
  AC_ARG_WITH([slurm-confdir], [AS_HELP_STRING([--with-slurm-confdir=DIR], [where slurm.conf is @<:@/etc/slurm@:>@])], [], [with_slurm_confdir=/etc/slurm])
  AS_CASE([$with_slurm_plugindir], [""|/*], [], [AC_MSG_ERROR([--with-slurm-plugindir=$with_slurm_plugindir: an absolute path is needed])])
  AS_CASE([$with_slurm_confdir], [/*], [], [AC_MSG_ERROR([--with-slurm-confdir=$with_slurm_confdir: an absolute path is needed])])
  SLURM_CPPFLAGS=
  have_slurm=no
  SLURM_VERSION=none
  AS_CASE([$with_slurm], [yes|no|check], [], [/*], [SLURM_CPPFLAGS="-I$with_slurm/include"],
    [AC_MSG_ERROR([--with-slurm=$with_slurm: an absolute path is needed])])
  AS_IF([test "x$with_slurm" != xno], [
    dl_save_cppflags=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $SLURM_CPPFLAGS"
    AC_CHECK_HEADER([slurm/spank.h], [have_slurm=yes], [], [[#include <cstddef>
#include <slurm/slurm.h>]])
    AS_IF([test "x$have_slurm" = xyes], [
      AC_MSG_CHECKING([for Slurm's version])
      AC_COMPUTE_INT([dl_slurm_hex], [SLURM_VERSION_NUMBER], [[#include <slurm/slurm_version.h>]], [dl_slurm_hex=0])
      SLURM_VERSION="$((dl_slurm_hex >> 16)).$(printf '%02d' $(((dl_slurm_hex >> 8) & 255))).$((dl_slurm_hex & 255))"
      AC_MSG_RESULT([$SLURM_VERSION])
      AS_IF([test "$dl_slurm_hex" -lt "$((22 * 65536 + 5 * 256))"], [AC_MSG_ERROR([Slurm $SLURM_VERSION is too old: 22.05 or later is needed])])
    ])
    CPPFLAGS=$dl_save_cppflags
  ])
  AS_IF([test "x$have_slurm" = xno && test "x$with_slurm" != xno && test "x$with_slurm" != xcheck],
    [AC_MSG_ERROR([--with-slurm was given but slurm/spank.h was not found: install libslurm-dev (Debian) or slurm-devel])])
  have_libslurm=no
  SLURM_LIBS=
  SLURM_SERIES=${SLURM_VERSION%.*}
  # A PREFIX that has no libslurm gets none: the linker would find that of another Slurm, whose types differ from these headers.
  slurm_libdir=
  AS_CASE([$with_slurm], [/usr|/], [], [/*], [
    for dl_dir in "$with_slurm/lib64" "$with_slurm/lib" "$with_slurm/lib/$($CC -print-multiarch 2>/dev/null)"; do
      AS_IF([test -z "$slurm_libdir" && test -e "$dl_dir/libslurm.so"], [slurm_libdir=$dl_dir])
    done
    AS_IF([test "x$have_slurm" = xyes && test -z "$slurm_libdir"],
      [AC_MSG_WARN([no libslurm.so in $with_slurm/lib64 or $with_slurm/lib: dlpolicyd and dlctl's module for this Slurm are not built])])
  ])
  AS_IF([test "x$have_slurm" = xyes && { test -n "$slurm_libdir" || test "x$SLURM_CPPFLAGS" = x || test "x$with_slurm" = x/usr; }], [
    dl_save_libs=$LIBS
    dl_save_ldflags=$LDFLAGS
    AS_IF([test -n "$slurm_libdir"], [LDFLAGS="-L$slurm_libdir $LDFLAGS"])
    AC_CHECK_LIB([slurm], [slurm_load_jobs], [have_libslurm=yes SLURM_LIBS="-lslurm"])
    AS_IF([test "x$have_libslurm" = xyes && test -n "$slurm_libdir"],
      [SLURM_LIBS="-L$slurm_libdir -Wl,-rpath,$slurm_libdir -lslurm"])
    LIBS=$dl_save_libs
    LDFLAGS=$dl_save_ldflags
  ])
  AS_IF([test -n "$with_slurm_plugindir"], [slurmplugdir=$with_slurm_plugindir], [slurmplugdir='${libdir}/slurm'])
  slurmconfdir=$with_slurm_confdir
  AC_SUBST([slurmplugdir])
  AC_SUBST([slurmconfdir])
  AC_SUBST([SLURM_CPPFLAGS])
  AC_SUBST([SLURM_VERSION])
  AC_SUBST([SLURM_SERIES])
  AC_SUBST([SLURM_LIBS])
  AM_CONDITIONAL([HAVE_SLURM], [test "x$have_slurm" = xyes])
  AM_CONDITIONAL([HAVE_LIBSLURM], [test "x$have_libslurm" = xyes])
  DL_SUMMARY_ADD([Slurm plugins], [$have_slurm (headers of Slurm $SLURM_VERSION)])
  AS_IF([test "x$have_libslurm" = xyes], [dl_libslurm="yes, for Slurm $SLURM_SERIES${slurm_libdir:+ (libslurm in $slurm_libdir)}"],
    [dl_libslurm="no (no libslurm)"])
  DL_SUMMARY_ADD([dlpolicyd], [$dl_libslurm])
  DL_SUMMARY_ADD([dlctl quota, why], [$dl_libslurm])
])
