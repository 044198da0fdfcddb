# SYNOPSIS     DL_CHECK_TEST_TOOLS
# DESCRIPTION  GoogleTest and bats. Both only for `make check`; without them their tests are left out and the summary says so.
AC_DEFUN([DL_CHECK_TEST_TOOLS], [
  PKG_CHECK_MODULES([GTEST], [gtest], [have_gtest=yes], [have_gtest=no])
  AM_CONDITIONAL([HAVE_GTEST], [test "x$have_gtest" = xyes])
  AC_PATH_PROG([BATS], [bats])
  AM_CONDITIONAL([HAVE_BATS], [test -n "$BATS"])
  AC_PATH_PROG([PYTHON3], [python3], [python3], [/usr/bin:$PATH])
  DL_SUMMARY_ADD([tests], [GoogleTest $have_gtest, bats ${BATS:-no}])
])
