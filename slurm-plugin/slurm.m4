# SYNOPSIS     DL_CHECK_SLURM
# DESCRIPTION  --with-slurm[=PREFIX]: Slurm's public headers (slurm.h, spank.h) and their version, and libslurm, which
#              dlpolicyd and dlctl quota need; --with-slurm-plugindir, --with-slurm-confdir. Default: build the plugins if the headers are found. The plugins are bound to one
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
  AS_IF([test "x$have_slurm" = xyes], [
    dl_save_libs=$LIBS
    dl_save_ldflags=$LDFLAGS
    AS_CASE([$with_slurm], [/*], [LDFLAGS="$LDFLAGS -L$with_slurm/lib"])
    AC_CHECK_LIB([slurm], [slurm_load_jobs], [have_libslurm=yes SLURM_LIBS="-lslurm"])
    AS_CASE([$with_slurm:$have_libslurm], [/*:yes], [SLURM_LIBS="-L$with_slurm/lib -lslurm"])
    LIBS=$dl_save_libs
    LDFLAGS=$dl_save_ldflags
  ])
  AS_IF([test -n "$with_slurm_plugindir"], [slurmplugdir=$with_slurm_plugindir], [slurmplugdir='${libdir}/slurm'])
  slurmconfdir=$with_slurm_confdir
  AC_SUBST([slurmplugdir])
  AC_SUBST([slurmconfdir])
  AC_SUBST([SLURM_CPPFLAGS])
  AC_SUBST([SLURM_VERSION])
  AC_SUBST([SLURM_LIBS])
  AM_CONDITIONAL([HAVE_SLURM], [test "x$have_slurm" = xyes])
  AS_IF([test "x$have_libslurm" = xyes], [AC_DEFINE([HAVE_LIBSLURM], [1], [libslurm is linked into dlctl])])
  AM_CONDITIONAL([HAVE_LIBSLURM], [test "x$have_libslurm" = xyes])
  DL_SUMMARY_ADD([Slurm plugins], [$have_slurm (headers of Slurm $SLURM_VERSION)])
  DL_SUMMARY_ADD([dlpolicyd], [$have_libslurm (needs libslurm)])
])
