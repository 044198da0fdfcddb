# SYNOPSIS     DL_CHECK_URING
# DESCRIPTION  --with-liburing: checkpoints are written through io_uring where the kernel allows it; threads with pwrite
#              do it otherwise, so it may be missing.
AC_DEFUN([DL_CHECK_URING], [
  AC_ARG_WITH([liburing], [AS_HELP_STRING([--with-liburing], [write checkpoints through io_uring @<:@check@:>@])], [], [with_liburing=check])
  have_liburing=no
  AS_IF([test "x$with_liburing" != xno],
    [PKG_CHECK_MODULES([URING], [liburing >= 2.0], [have_liburing=yes], [URING_CFLAGS= URING_LIBS=])])
  AS_IF([test "x$have_liburing" = xno && test "x$with_liburing" != xno && test "x$with_liburing" != xcheck],
    [AC_MSG_ERROR([--with-liburing was given but liburing was not found: install liburing-dev])])
  AC_SUBST([URING_CFLAGS])
  AC_SUBST([URING_LIBS])
  AS_IF([test "x$have_liburing" = xyes], [AC_DEFINE([HAVE_LIBURING], [1], [liburing found])])
  DL_SUMMARY_ADD([io_uring], [$have_liburing])
])
