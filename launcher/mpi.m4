# SYNOPSIS     DL_CHECK_MPI, DL_CHECK_PMIX
# DESCRIPTION  --with-mpi: mpicc/mpicxx, for the MPI example and the MPI tests. --with-pmix: headers, for the summary and
#              the rooms that speak PMIx. Both optional; asked for and missing is an error.
AC_DEFUN([DL_CHECK_MPI], [
  AC_ARG_WITH([mpi], [AS_HELP_STRING([--with-mpi], [build the MPI parts @<:@check@:>@])], [], [with_mpi=check])
  have_mpi=no
  AS_IF([test "x$with_mpi" != xno], [AC_PATH_PROG([MPICXX], [mpicxx])
    AS_IF([test -n "$MPICXX"], [have_mpi=yes])])
  AS_IF([test "x$have_mpi$with_mpi" = xnoyes], [AC_MSG_ERROR([--with-mpi was given but mpicxx was not found: install libopenmpi-dev])])
  AM_CONDITIONAL([HAVE_MPI], [test "x$have_mpi" = xyes])
  DL_SUMMARY_ADD([MPI], [$have_mpi ${MPICXX:+($MPICXX)}])
])
AC_DEFUN([DL_CHECK_PMIX], [
  AC_ARG_WITH([pmix], [AS_HELP_STRING([--with-pmix], [use PMIx @<:@check@:>@])], [], [with_pmix=check])
  have_pmix=no
  AS_IF([test "x$with_pmix" != xno], [PKG_CHECK_MODULES([PMIX], [pmix >= 3], [have_pmix=yes], [have_pmix=no])])
  AS_IF([test "x$have_pmix$with_pmix" = xnoyes], [AC_MSG_ERROR([--with-pmix was given but PMIx was not found: install libpmix-dev])])
  AM_CONDITIONAL([HAVE_PMIX], [test "x$have_pmix" = xyes])
  AS_IF([test "x$have_pmix" = xyes], [AC_DEFINE([HAVE_PMIX], [1], [PMIx headers and library found])])
  DL_SUMMARY_ADD([PMIx], [$have_pmix])
])
