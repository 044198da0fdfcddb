# SYNOPSIS     DL_CHECK_MPI, DL_CHECK_PMIX
# DESCRIPTION  --with-mpi: mpicc/mpicxx, for the MPI example and the MPI tests, and MPI_CPPFLAGS and MPI_LIBS of the C
#              interface for libdllearner (its header and library are asked of mpicxx, as Open MPI or MPICH). --with-pmix: libpmix of OpenPMIx, for
#              dl-pmix (launcher/pmix); PMIX_CPPFLAGS, PMIX_LIBS and PMIX_VERSION. Both optional; asked for and missing is an error.
AC_DEFUN([DL_CHECK_MPI], [
  AC_ARG_WITH([mpi], [AS_HELP_STRING([--with-mpi], [build the MPI parts @<:@check@:>@])], [], [with_mpi=check])
  have_mpi=no
  AS_IF([test "x$with_mpi" != xno], [AC_PATH_PROG([MPICXX], [mpicxx])
    AS_IF([test -n "$MPICXX"], [have_mpi=yes])])
  AS_IF([test "x$have_mpi$with_mpi" = xnoyes], [AC_MSG_ERROR([--with-mpi was given but mpicxx was not found: install libopenmpi-dev])])
  MPI_CPPFLAGS= MPI_LIBS=
  AS_IF([test "x$have_mpi" = xyes], [
    # Open MPI's wrappers print what they add; MPICH's print the whole command.
    AS_IF([dl_incdirs=`$MPICXX --showme:incdirs 2>/dev/null`], [
      for dl_dir in $dl_incdirs; do MPI_CPPFLAGS="$MPI_CPPFLAGS -isystem $dl_dir"; done
      for dl_dir in `$MPICXX --showme:libdirs`; do MPI_LIBS="$MPI_LIBS -L$dl_dir"; done
      # Open MPI 6 has its objects (ompi_mpi_float) in a library beside libmpi. mpi_cxx is for C++ bindings, which are not used.
      for dl_lib in `$MPICXX --showme:libs`; do
        AS_CASE([$dl_lib], [mpi_cxx], [], [MPI_LIBS="$MPI_LIBS -l$dl_lib"])
      done
    ], [
      for dl_word in `$MPICXX -show 2>/dev/null`; do
        AS_CASE([$dl_word], [-I*], [MPI_CPPFLAGS="$MPI_CPPFLAGS $dl_word"], [-L*|-lmpi|-lmpich|-Wl,-rpath*], [MPI_LIBS="$MPI_LIBS $dl_word"])
      done
    ])
    dl_save_cppflags=$CPPFLAGS dl_save_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $MPI_CPPFLAGS -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX" LIBS="$MPI_LIBS $LIBS"
    AC_MSG_CHECKING([for the MPI library])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]], [[int on = 0; return MPI_Initialized(&on) == MPI_SUCCESS ? 0 : 1;]])],
      [], [have_mpi=no; MPI_CPPFLAGS=; MPI_LIBS=])
    AC_MSG_RESULT([$have_mpi])
    CPPFLAGS=$dl_save_cppflags LIBS=$dl_save_libs
  ])
  AS_IF([test "x$have_mpi$with_mpi" = xnoyes && test -n "$MPICXX"], [AC_MSG_ERROR([--with-mpi was given but mpi.h and libmpi of $MPICXX cannot be used])])
  AC_SUBST([MPI_CPPFLAGS])
  AC_SUBST([MPI_LIBS])
  AM_CONDITIONAL([HAVE_MPI], [test "x$have_mpi" = xyes])
  DL_SUMMARY_ADD([MPI], [$have_mpi ${MPICXX:+($MPICXX)}])
])
AC_DEFUN([DL_CHECK_PMIX], [
  AC_ARG_WITH([pmix], [AS_HELP_STRING([--with-pmix], [use PMIx @<:@check@:>@])], [], [with_pmix=check])
  have_pmix=no
  AS_IF([test "x$with_pmix" != xno], [PKG_CHECK_MODULES([PMIX], [pmix >= 4], [have_pmix=yes], [have_pmix=no])])
  AS_IF([test "x$have_pmix$with_pmix" = xnoyes], [AC_MSG_ERROR([--with-pmix was given but PMIx was not found: install libpmix-dev])])
  AM_CONDITIONAL([HAVE_PMIX], [test "x$have_pmix" = xyes])
  AS_IF([test "x$have_pmix" = xyes], [AC_DEFINE([HAVE_PMIX], [1], [PMIx headers and library found])])
  PMIX_CPPFLAGS= PMIX_VERSION=
  AS_IF([test "x$have_pmix" = xyes], [
    PMIX_CPPFLAGS=`AS_ECHO(["$PMIX_CFLAGS"]) | sed 's/-I/-isystem /g'`
    PMIX_VERSION=`$PKG_CONFIG --modversion pmix`
  ])
  AC_SUBST([PMIX_CPPFLAGS])
  AC_SUBST([PMIX_VERSION])
  DL_SUMMARY_ADD([PMIx], [$have_pmix ${PMIX_VERSION:+($PMIX_VERSION)}])
])
