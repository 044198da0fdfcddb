#!/usr/bin/env bash
# What libdlckpt writes is read by h5py and by h5dump: every dtype, scalars, empty tensors, names, attributes, the block table.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
library=$top_builddir/checkpoint/.libs/libdlckpt.so
python=
for candidate in /usr/bin/python3 python3; do
  if "$candidate" -c 'import h5py, numpy' 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [ ! -e "$library" ]; then
  skip "h5py reads the format" "libdlckpt was not built: no HDF5"
elif [ -z "$python" ]; then
  skip "h5py reads the format" "no python3 with h5py and NumPy"
elif ldd "$library" | grep -q lib.san; then
  skip "h5py reads the format" "a library built with a sanitizer cannot be loaded into Python"
else
  while IFS= read -r line; do
    case $line in
      "ok "*) check "${line#ok }" "" ;;
      *) check "h5py reads the format" "$line" ;;
    esac
  done < <("$python" "$(dirname "$0")/read_with_h5py.py" "$library" "$work/ckpt" 2>&1)
  if command -v h5dump >/dev/null; then
    file=$(echo "$work"/ckpt/step-*/r00000.h5)
    out=$(h5dump -d /float32/s0 "$file" 2>&1)
    check "h5dump prints a dataset" "$([[ $out == *"(0): 0.5, 1.5, -2"* ]] || echo "$out")"
    out=$(h5dump -H "$file" 2>&1 >/dev/null)
    check "h5dump reads all headers" "$out"
  else
    skip "h5dump prints a dataset" "h5dump is not installed"
  fi
fi
finish
