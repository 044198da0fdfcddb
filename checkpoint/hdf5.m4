# SYNOPSIS     DL_CHECK_HDF5
# DESCRIPTION  --with-hdf5[=PREFIX]: the serial, thread-safe flavour. Debian keeps it apart from the MPI one (pkg-config
#              module hdf5-serial); a parallel library is refused, because libdlckpt must not bring MPI into a learner.
AC_DEFUN([DL_CHECK_HDF5], [
  AC_ARG_WITH([hdf5], [AS_HELP_STRING([--with-hdf5@<:@=PREFIX@:>@], [build the checkpoint library @<:@check@:>@])], [], [with_hdf5=check])
  have_hdf5=no
  HDF5_CFLAGS= HDF5_LIBS=
  AS_IF([test "x$with_hdf5" != xno], [
    AS_CASE([$with_hdf5],
      [/*], [HDF5_CFLAGS="-I$with_hdf5/include"; HDF5_LIBS="-L$with_hdf5/lib -lhdf5"],
      [yes|check], [AS_IF([$PKG_CONFIG --exists hdf5-serial], [HDF5_CFLAGS=$($PKG_CONFIG --cflags hdf5-serial); HDF5_LIBS=$($PKG_CONFIG --libs hdf5-serial)],
                    [HDF5_LIBS=-lhdf5])],
      [AC_MSG_ERROR([--with-hdf5=$with_hdf5: an absolute path is needed])])
    dl_save_cppflags=$CPPFLAGS dl_save_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $HDF5_CFLAGS" LIBS="$HDF5_LIBS $LIBS"
    AC_MSG_CHECKING([for serial, thread-safe HDF5])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <hdf5.h>
#ifdef H5_HAVE_PARALLEL
#error parallel HDF5
#endif
#ifndef H5_HAVE_THREADSAFE
#error HDF5 without thread safety
#endif]], [[return H5open() < 0;]])], [have_hdf5=yes], [HDF5_CFLAGS= HDF5_LIBS=])
    AC_MSG_RESULT([$have_hdf5])
    CPPFLAGS=$dl_save_cppflags LIBS=$dl_save_libs
  ])
  AS_IF([test "x$have_hdf5" = xno && test "x$with_hdf5" != xno && test "x$with_hdf5" != xcheck],
    [AC_MSG_ERROR([--with-hdf5 was given but no serial, thread-safe HDF5 was found: install libhdf5-dev])])
  AC_SUBST([HDF5_CFLAGS])
  AC_SUBST([HDF5_LIBS])
  AM_CONDITIONAL([HAVE_HDF5], [test "x$have_hdf5" = xyes])
  AS_IF([test "x$have_hdf5" = xyes], [AC_DEFINE([HAVE_HDF5], [1], [serial, thread-safe HDF5 found])])
  DL_SUMMARY_ADD([checkpoints (HDF5)], [$have_hdf5])
])
