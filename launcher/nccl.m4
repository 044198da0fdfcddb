# SYNOPSIS     DL_CHECK_CUDA, DL_CHECK_NCCL
# DESCRIPTION  --with-cuda[=DIR], --with-nccl[=DIR]: optional at configure time; what needs them is compiled and linked
#              wherever they are found.
AC_DEFUN([DL_CHECK_CUDA], [
  AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@], [use CUDA @<:@check, also in /usr/local/cuda@:>@])], [], [with_cuda=check])
  have_cuda=no
  CUDA_CPPFLAGS= CUDA_LIBS=
  AS_IF([test "x$with_cuda" != xno], [
    AS_CASE([$with_cuda], [/*], [dl_cuda=$with_cuda], [yes|check], [dl_cuda=/usr/local/cuda], [AC_MSG_ERROR([--with-cuda=$with_cuda: an absolute path is needed])])
    AS_IF([test -d "$dl_cuda/include"], [CUDA_CPPFLAGS="-isystem $dl_cuda/include" CUDA_LIBS="-L$dl_cuda/lib64 -lcudart"])
    dl_save_cppflags=$CPPFLAGS dl_save_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS" LIBS="${CUDA_LIBS:--lcudart} $LIBS"
    AC_MSG_CHECKING([for the CUDA runtime])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cuda_runtime_api.h>]], [[int n = 0; return cudaGetDeviceCount(&n) == cudaSuccess ? 0 : 1;]])],
      [have_cuda=yes; CUDA_LIBS=${CUDA_LIBS:--lcudart}], [CUDA_CPPFLAGS= CUDA_LIBS=])
    AC_MSG_RESULT([$have_cuda])
    CPPFLAGS=$dl_save_cppflags LIBS=$dl_save_libs
  ])
  AS_IF([test "x$have_cuda" = xno && test "x$with_cuda" != xno && test "x$with_cuda" != xcheck],
    [AC_MSG_ERROR([--with-cuda was given but cuda_runtime_api.h and libcudart were not found; give --with-cuda=DIR])])
  AC_SUBST([CUDA_CPPFLAGS])
  AC_SUBST([CUDA_LIBS])
  AM_CONDITIONAL([HAVE_CUDA], [test "x$have_cuda" = xyes])
  AS_IF([test "x$have_cuda" = xyes], [AC_DEFINE([HAVE_CUDA], [1], [CUDA runtime found])])
  DL_SUMMARY_ADD([CUDA], [$have_cuda])
])
AC_DEFUN([DL_CHECK_NCCL], [
  AC_ARG_WITH([nccl], [AS_HELP_STRING([--with-nccl@<:@=DIR@:>@], [use NCCL @<:@check@:>@])], [], [with_nccl=check])
  have_nccl=no
  NCCL_CPPFLAGS= NCCL_LIBS=
  AS_IF([test "x$with_nccl" != xno && test "x$have_cuda" = xyes], [
    AS_CASE([$with_nccl], [/*], [NCCL_CPPFLAGS="-isystem $with_nccl/include"; NCCL_LIBS="-L$with_nccl/lib"], [yes|check], [], [AC_MSG_ERROR([--with-nccl=$with_nccl: an absolute path is needed])])
    NCCL_LIBS="$NCCL_LIBS -lnccl"
    dl_save_cppflags=$CPPFLAGS dl_save_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS $NCCL_CPPFLAGS" LIBS="$NCCL_LIBS $CUDA_LIBS $LIBS"
    AC_MSG_CHECKING([for NCCL])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <nccl.h>
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 14, 0)
#error non-blocking communicators
#endif
]], [[ncclComm_t c; ncclUniqueId id; ncclConfig_t config = NCCL_CONFIG_INITIALIZER; return ncclCommInitRankConfig(&c, 1, id, 0, &config) == ncclSuccess ? 0 : 1;]])],
      [have_nccl=yes], [NCCL_CPPFLAGS= NCCL_LIBS=])
    AC_MSG_RESULT([$have_nccl])
    CPPFLAGS=$dl_save_cppflags LIBS=$dl_save_libs
  ])
  AS_IF([test "x$have_nccl" = xno && test "x$with_nccl" != xno && test "x$with_nccl" != xcheck],
    [AC_MSG_ERROR([--with-nccl was given but nccl.h and libnccl (with CUDA) were not found; give --with-nccl=DIR])])
  AC_SUBST([NCCL_CPPFLAGS])
  AC_SUBST([NCCL_LIBS])
  AM_CONDITIONAL([HAVE_NCCL], [test "x$have_nccl" = xyes])
  AS_IF([test "x$have_nccl" = xyes], [AC_DEFINE([HAVE_NCCL], [1], [NCCL found])])
  DL_SUMMARY_ADD([NCCL], [$have_nccl])
])
