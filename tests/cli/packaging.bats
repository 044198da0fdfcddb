#!/usr/bin/env bats
# What a release and a site's own installation are made of, without a build: versions, recipes, list of parts, signatures, module file. The packages
# themselves: tests/packaging/run, by hand.
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup() {
  cd "$BATS_TEST_TMPDIR" || return 1
  version=$(sed -nE 's/^AC_INIT\(\[slurm-dl\], \[([^]]*)\].*/\1/p' "$top_srcdir/configure.ac")
  mkdir -p tree
  tar -czf "slurm-dl-$version.tar.gz" tree
  export SOURCE_DATE_EPOCH=1790000000
}
release() { "$top_srcdir/packaging/release" --draft --tarball "slurm-dl-$version.tar.gz" "$@"; }
# A home of gpg with a key that lives as long as the test.
throwaway_key() {
  command -v gpg >/dev/null || skip "gpg is not installed"
  export GNUPGHOME=$BATS_TEST_TMPDIR/gnupg
  mkdir -m 700 "$GNUPGHOME"
  gpg --batch --quiet --passphrase '' --quick-generate-key 'throwaway <throwaway@example.org>' ed25519 sign never 2>gpg.log || { cat gpg.log; return 1; }
}
teardown() { [ -z "${GNUPGHOME:-}" ] || gpgconf --kill all 2>/dev/null || true; }

@test "a release is signed, its sums and signatures are right, and a changed file is noticed" {
  throwaway_key
  release --key throwaway@example.org --out out
  cd out
  sha256sum --check --strict --quiet SHA256SUMS
  gpg --batch --verify SHA256SUMS.asc SHA256SUMS
  gpg --batch --verify "slurm-dl-$version.tar.gz.asc" "slurm-dl-$version.tar.gz"
  grep -q "  slurm-dl-$version.spdx.json$" SHA256SUMS
  echo >>"slurm-dl-$version.tar.gz"
  run ! gpg --batch --verify "slurm-dl-$version.tar.gz.asc" "slurm-dl-$version.tar.gz"
  run ! sha256sum --check --status SHA256SUMS
}

@test "a release without a key, with one that gpg does not have, or under another version is refused with what to do" {
  run -2 release --out out
  [[ $output == *"--key is missing"* ]]
  export GNUPGHOME=$BATS_TEST_TMPDIR/none
  mkdir -m 700 "$GNUPGHOME"
  run -1 release --key nobody@example.org --out out
  [[ $output == *"gpg has no secret key 'nobody@example.org'"* ]]
  cp "slurm-dl-$version.tar.gz" slurm-dl-99.tar.gz
  run -1 "$top_srcdir/packaging/release" --draft --key none --tarball slurm-dl-99.tar.gz --out out
  [[ $output == *"a tarball of this version is called slurm-dl-$version.tar.gz"* ]]
}

@test "the same release made twice is the same" {
  release --key none --out one
  release --key none --out two
  diff -r one two
}

@test "the list of parts names what is compiled in and linked, and each fault in it is said" {
  release --key none --out out
  local sbom=out/slurm-dl-$version.spdx.json fault
  "$top_srcdir/packaging/write-sbom" --check "$sbom"
  grep -q "$(sha256sum "slurm-dl-$version.tar.gz" | cut -d' ' -f1)" "$sbom"
  # Each library that configure.ac looks for is in it.
  for library in $(grep -hoE '(DL_NEED_HEADER|PKG_CHECK_MODULES)\(\[[A-Za-z0-9_+/.]+' "$top_srcdir"/common/libraries.m4 | sed 's/.*\[//; s|[+/.].*||' | tr '[:upper:]' '[:lower:]'); do
    grep -qi "\"name\": \"[a-z]*$library" "$sbom" || { echo "$library is not in it"; return 1; }
  done
  for fault in 's/SPDX-2.3/SPDX-1/' 's/"SPDXRef-hwloc"/"SPDXRef-zstd"/' 's/"licenseConcluded": "MIT"/"licenseConcluded": ""/' 's/"name": "pcre2"/"name": "pcre3"/' '1d'; do
    sed "$fault" "$sbom" >bad.json
    run -1 "$top_srcdir/packaging/write-sbom" --check bad.json
    [ -n "$output" ]
  done
}

@test "the recipes for Spack and EasyBuild have the version and the digest, and are Python" {
  release --key none --out out
  local digest file
  digest=$(sha256sum "slurm-dl-$version.tar.gz" | cut -d' ' -f1)
  for file in out/spack/slurm-dl/package.py "out/easybuild/slurm-dl-$version-GCC-13.3.0.eb"; do
    grep -qF "$digest" "$file"
    grep -qF "$version" "$file"
    run ! grep -n '@[A-Z0-9]*@' "$file"
    python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$file"
  done
}

@test "the options of ./configure that recipes and packages give are options" {
  local option options
  options=$(cat "$top_srcdir"/*/*.m4 "$top_srcdir"/*/*/*.m4 | grep -oE '(AS_HELP_STRING\(\[--(with|enable|disable)-[a-z0-9-]+)' | sed -E 's/.*--(with|enable|disable)-//')
  mapfile -t given < <(grep -hoE -- '--(with|without|enable|disable)-[a-z0-9-]+' "$top_srcdir"/packaging/{debian/rules,rpm/slurm-dl.spec,spack/package.py.in,easybuild/slurm-dl.eb.in} | sort -u)
  ((${#given[@]} > 8))
  for option in "${given[@]}"; do
    grep -qx "$(sed -E 's/--(with|without|enable|disable)-//' <<<"$option")" <<<"$options" || { echo "$option"; return 1; }
  done
}

@test "the spec, the packages and configure.ac say the same version and the same packages" {
  [ "$(sed -nE 's/^Version: +//p' "$top_srcdir/packaging/rpm/slurm-dl.spec")" = "$version" ]
  diff <(sed -n 's/^Package: //p' "$top_srcdir/packaging/debian/control" | sort) \
    <(sed -nE 's/^%package -n //p; s/^%package ([a-z]+)$/slurm-dl-\1/p; s/^Name: +//p' "$top_srcdir/packaging/rpm/slurm-dl.spec" | sort)
}

# What the packages for rpm run is the same but for the folder.
# shellcheck disable=SC2016  # expanded by the shells of the programs
@test "the package of the plugins says that slurmctld would refuse new jobs, if its part is missing, and nothing else" {
  mkdir -p bin "slurm wlm/slurm-dl/22.05"
  : >"slurm wlm/slurm-dl/22.05/job_submit.so"
  printf '#!/bin/sh\nprintf "/.\\n%%s\\n" "$PWD/slurm wlm/spank_dl.so" "$PWD/slurm wlm/job_submit_dl.so"\n' >bin/dpkg
  chmod +x bin/dpkg
  script=$top_srcdir/packaging/debian/slurm-dl-plugins.postinst
  installed() { # installed VERSION: slurmctld of it
    printf '#!/bin/sh\necho "slurm-wlm %s"\n' "$1" >bin/slurmctld
    chmod +x bin/slurmctld
    run env "PATH=$PWD/bin:/usr/bin:/bin" sh "$script" "${@:2}"
    echo "$output"
    [ "$status" -eq 0 ]
  }
  installed 22.05.11 configure ''
  [ "$output" = '' ]
  for why in configure triggered; do
    installed 24.11.5-2 "$why" /usr/sbin/slurmctld
    [ "$output" = "slurm-dl-plugins: slurmctld here is of Slurm 24.11, and there is no $PWD/slurm wlm/slurm-dl/24.11/job_submit.so: once it is restarted it refuses new jobs; install slurm-dl-plugins that is built for Slurm 24.11" ]
  done
  rm bin/slurmctld # a node, or a login host
  run env -i "PATH=$PWD/bin:/usr/bin:/bin" sh "$script" configure ''
  [ "$output" = '' ]
}

@test "make install-strip, as README.md has it, installs programs without what debuggers read: dlrun has 5 MB at most" {
  local dlrun
  MAKEFLAGS='' make -C "$top_builddir" install-strip DESTDIR="$PWD/root" >log 2>&1 || { tail -n 20 log; false; }
  dlrun=$(find root -path '*/bin/dlrun')
  [ -x "$dlrun" ]
  [ "$(stat -c %s "$dlrun")" -le 5000000 ]
  [ -z "$(find root -type f \( -name '*.so*' -o -path '*/bin/dl*' -o -path '*/slurm-dl/dl-*' \) -exec sh -c 'readelf -S "$1" 2>/dev/null | grep -q debug_info && echo "$1"' sh {} \;)" ]
}

@test "the module file finds programs, libraries, man pages and Python modules of its prefix" {
  command -v tclsh >/dev/null || skip "tclsh is not installed"
  cat >module.tcl <<'END'
proc unknown {args} { puts $args }
source [lindex $argv 0]
END
  run -0 tclsh module.tcl "$top_builddir/packaging/modulefiles/$version"
  [[ $output == *"prepend-path PATH $top_builddir/stage/bin"* || $output == *"prepend-path PATH /"*bin* ]]
  [[ $output == *"prepend-path LD_LIBRARY_PATH /"* ]]
  [[ $output == *"append-path PYTHONPATH /"*/share/slurm-dl/python* ]]
  run ! grep -n '@[a-z]*@' "$top_builddir/packaging/modulefiles/$version"
}

@test "build-packages, build-wheel and release say how they are called, and refuse what is no option" {
  local program
  for program in build-packages build-wheel release write-sbom; do
    run -0 "$top_srcdir/packaging/$program" --help
    [[ $output == *"$program"* ]]
    run -2 "$top_srcdir/packaging/$program" --nonsense
    [[ $output == *"--nonsense"* ]]
  done
}

@test "install-packages takes the first name of a package that apt knows, however much apt says of it" {
  mkdir bin
  cat >bin/apt-cache <<'END'
#!/bin/bash
[ "${!#}" = known ] || exit 100
echo "Package: known"
head -c 1000000 /dev/zero | tr '\0' '\n'
END
  chmod +x bin/apt-cache
  PATH=$PWD/bin:$PATH
  run -0 bash -o pipefail -c "$(sed -n '/^first_known()/,/^}/p' "$top_srcdir/packaging/install-packages"); first_known 'unknown|known|other'"
  [ "$output" = known ]
}
