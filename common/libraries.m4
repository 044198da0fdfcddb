# SYNOPSIS     DL_CHECK_LIBRARIES
# DESCRIPTION  The small libraries every room may use. All are packaged by Debian, Fedora and EPEL; all but libuv,
#              hwloc, xxhash, nettle, zstd, pcre2 and civetweb, which only our own programs and libraries link, are headers only, compiled in, so that the plugins bring no new library into Slurm's daemons.
AC_DEFUN([DL_NEED_HEADER], [
  AC_CHECK_HEADER([$1], [], [AC_MSG_ERROR([$1 not found: install $2 (Debian) or $3 (Fedora, EPEL)])], [[#include <cstddef>]])
])
AC_DEFUN([DL_CHECK_LIBRARIES], [
  dl_save_cxxflags=$CXXFLAGS
  CXXFLAGS="$CXXFLAGS -std=c++17"
  DL_NEED_HEADER([fmt/format.h], [libfmt-dev], [fmt-devel])
  DL_NEED_HEADER([toml++/toml.h], [libtomlplusplus-dev], [tomlplusplus-devel])
  DL_NEED_HEADER([nlohmann/json.hpp], [nlohmann-json3-dev], [json-devel])
  DL_NEED_HEADER([civetweb.h], [libcivetweb-dev], [civetweb-devel])
  CXXFLAGS=$dl_save_cxxflags
  AC_SUBST([CIVETWEB_LIBS], [-lcivetweb])
  PKG_CHECK_MODULES([UV], [libuv >= 1.40], [], [AC_MSG_ERROR([libuv not found: install libuv1-dev (Debian) or libuv-devel])])
  PKG_CHECK_MODULES([XXHASH], [libxxhash >= 0.8.0], [], [AC_MSG_ERROR([xxhash not found: install libxxhash-dev (Debian) or xxhash-devel])])
  PKG_CHECK_MODULES([HWLOC], [hwloc >= 2.0], [], [AC_MSG_ERROR([hwloc not found: install libhwloc-dev (Debian) or hwloc-devel])])
  PKG_CHECK_MODULES([NETTLE], [nettle >= 3.4], [], [AC_MSG_ERROR([nettle not found: install nettle-dev (Debian) or nettle-devel])])
  PKG_CHECK_MODULES([ZSTD], [libzstd >= 1.4], [], [AC_MSG_ERROR([zstd not found: install libzstd-dev (Debian) or libzstd-devel])])
  PKG_CHECK_MODULES([PCRE2], [libpcre2-8 >= 10.30], [], [AC_MSG_ERROR([pcre2 not found: install libpcre2-dev (Debian) or pcre2-devel])])
  DL_SUMMARY_ADD([libraries], [fmt, toml++, nlohmann-json, libuv $($PKG_CONFIG --modversion libuv), xxhash $($PKG_CONFIG --modversion libxxhash), civetweb])
])
