# SYNOPSIS     DL_CHECK_COMPILER
# DESCRIPTION  C++17; the warnings this project is written under; --enable-werror (CI), --enable-sanitizer=KIND.
#              Substitutes DL_CXXFLAGS, DL_LDFLAGS (for our own code only).
#
#              DL_DEFAULT_FLAGS, before AC_PROG_CC: optimised, and with as much debug information as a stack trace needs.
#              Autoconf's own -g takes half as much time again; to see variables in a debugger, set CXXFLAGS='-g -O0'.
#              Most code is compiled with -Og, which takes a quarter less time than -O1 to compile. Rooms that compute much (policy,
#              checkpoints) add $(DL_HOT), -O2. CXXFLAGS come last on each command line, so whoever sets them chooses for all files.
AC_DEFUN([DL_DEFAULT_FLAGS], [
  : ${CFLAGS="-O2 -g1"}
  AS_IF([test -z "${CXXFLAGS+set}"], [CXXFLAGS=-g1 dl_optimise=-Og DL_HOT=-O2], [dl_optimise= DL_HOT=])
  AC_SUBST([DL_HOT])
])
AC_DEFUN([DL_CHECK_COMPILER], [
  AC_MSG_CHECKING([whether $CXX speaks C++17])
  dl_save_cxxflags=$CXXFLAGS
  CXXFLAGS="$CXXFLAGS -std=c++17"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <optional>
#include <string_view>]], [[std::optional<std::string_view> v{"x"}; return v->size() == 1 ? 0 : 1;]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([slurm-dl needs a C++17 compiler; set CXX, for example CXX=g++-12])])
  CXXFLAGS=$dl_save_cxxflags
  DL_CXXFLAGS="-std=c++17 -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wcast-qual -Wformat=2 -Wvla -fno-strict-overflow -fstack-protector-strong $dl_optimise"
  DL_CFLAGS="-std=gnu11 -Wall -Wextra -Wshadow -Wformat=2 -Wvla -fstack-protector-strong"
  DL_LDFLAGS=

  AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat warnings as errors])], [], [enable_werror=no])
  AS_IF([test "x$enable_werror" = xyes], [DL_CXXFLAGS="$DL_CXXFLAGS -Werror"; DL_CFLAGS="$DL_CFLAGS -Werror"])

  AC_ARG_ENABLE([sanitizer],
    [AS_HELP_STRING([--enable-sanitizer=KIND], [build with a sanitizer: address, thread or undefined; address,undefined for both])],
    [], [enable_sanitizer=no])
  AS_CASE([$enable_sanitizer],
    [no], [],
    [address|thread|undefined|address,undefined],
      [dl_san="-fsanitize=$enable_sanitizer -fno-omit-frame-pointer -fno-sanitize-recover=all -g1 -O1"
       DL_CXXFLAGS="$DL_CXXFLAGS $dl_san"; DL_CFLAGS="$DL_CFLAGS $dl_san"; DL_LDFLAGS="-fsanitize=$enable_sanitizer"],
    [AC_MSG_ERROR([--enable-sanitizer=$enable_sanitizer: allowed are address, thread, undefined, and address,undefined])])
  AM_CONDITIONAL([SANITIZED], [test "x$enable_sanitizer" != xno])
  AC_ARG_ENABLE([precompiled], [AS_HELP_STRING([--disable-precompiled], [parse the common headers anew for each file])],
    [], [enable_precompiled=yes])
  AS_CASE([$enable_precompiled], [yes|no], [], [AC_MSG_ERROR([--enable-precompiled=$enable_precompiled: allowed are yes and no])])
  # The form of the file is GCC's; another compiler reads the headers each time.
  AS_IF([test "x$GXX" != xyes || $CXX --version 2>/dev/null | grep -q clang], [enable_precompiled=no])
  AM_CONDITIONAL([PRECOMPILED], [test "x$enable_precompiled" = xyes])
  # A sanitized build compiles each source by itself.
  AC_ARG_ENABLE([joined-units], [AS_HELP_STRING([--disable-joined-units], [compile each source of a library by itself])],
    [], [AS_IF([test "x$enable_sanitizer" = xno], [enable_joined_units=yes], [enable_joined_units=no])])
  AS_CASE([$enable_joined_units], [yes|no], [], [AC_MSG_ERROR([--enable-joined-units=$enable_joined_units: allowed are yes and no])])
  AM_CONDITIONAL([JOINED_UNITS], [test "x$enable_joined_units" = xyes])
  AC_SUBST([DL_CXXFLAGS])
  AC_SUBST([DL_CFLAGS])
  AC_SUBST([DL_LDFLAGS])
  DL_SUMMARY_ADD([compiler], [$CXX, warnings are errors: $enable_werror, sanitizer: $enable_sanitizer])
])
