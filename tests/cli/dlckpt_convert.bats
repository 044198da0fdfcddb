#!/usr/bin/env bats
# dlckpt import, export and diff: to and from other formats, bit for bit.

# shellcheck source=tests/lib/jq.bash
source "${top_srcdir:?}/tests/lib/jq.bash"
setup() {
  dlckpt=${top_builddir:?}/checkpoint/dlckpt
  cd "$BATS_TEST_TMPDIR" || return 1
}

# A safetensors file by hand: st FILE HEADER [BYTES OF DATA]
st() {
  local n=${#2}
  printf '%b' "$(printf '\\x%02x\\x%02x\\0\\0\\0\\0\\0\\0' $((n % 256)) $((n / 256)))" >"$1"
  printf '%s' "$2" >>"$1"
  head -c "${3:-0}" /dev/zero >>"$1"
}

# A Python with torch, safetensors and h5py, or the test is skipped.
find_python() {
  local folder
  folder=$("${top_srcdir:?}"/packaging/install-frameworks --path 2>/dev/null) || folder=
  for python in "$folder/bin/python" /usr/bin/python3 python3; do
    "$python" -c 'import torch, safetensors.torch, h5py' 2>/dev/null && return
  done
  skip "no Python with torch, safetensors and h5py (packaging/install-frameworks makes one)"
}

needs_library() {
  [ -e "$top_builddir/checkpoint/libdlckpt.la" ] || skip "libdlckpt is not built"
}

@test "tensors of all dtypes go through safetensors, torch and HDF5 and come back bit for bit" {
  needs_library
  find_python
  convert="$top_srcdir/tests/cli/convert.py"
  "$python" "$convert" make a.safetensors
  "$dlckpt" import --safetensors a.safetensors c --step 5 --prefix model/
  "$dlckpt" verify --quiet c
  "$dlckpt" export c --safetensors b.safetensors --strip model/
  "$dlckpt" export c --torch b.pt --strip model/ --python "$python"
  "$dlckpt" export c --h5 b.h5 --strip model/
  "$python" "$convert" same b.safetensors b.pt b.h5
  "$dlckpt" import --torch b.pt c2 --step 5 --prefix model/ --python "$python"
  "$dlckpt" diff --quiet c c2
  [ -z "$(find . -name '*.tmp' -o -name '.tmp*')" ]
}

@test "thousands of small tensors are packed into one dataset, read and found damaged as others, and expanded again" {
  needs_library
  /usr/bin/python3 - <<'END'
import json, struct
names = ["t%04d.bias" % i for i in range(5100)]
header = {name: {"dtype": "F32", "shape": [2], "data_offsets": [8 * i, 8 * i + 8]} for i, name in enumerate(names)}
text = json.dumps(header).encode()
with open("a.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + b"".join(struct.pack("<ff", i, -i) for i in range(len(names))))
END
  "$dlckpt" import --safetensors a.safetensors c --step 1
  "$dlckpt" ls --json c | jq -e '.[0].bytes < 1000000'
  "$dlckpt" show c | grep " 5100 tensors"
  "$dlckpt" verify --quiet c
  "$dlckpt" export c --safetensors b.safetensors
  "$dlckpt" import --safetensors b.safetensors c2 --step 1
  "$dlckpt" diff --quiet c c2
  "$dlckpt" fork c c3
  "$dlckpt" diff --quiet c c3
  "$dlckpt" export c --expand b.h5
  if /usr/bin/python3 -c 'import h5py' 2>/dev/null; then
    /usr/bin/python3 -c 'import h5py; f = h5py.File("b.h5"); assert len(f) == 5100 and f["t5099.bias"][()].tolist() == [5099.0, -5099.0]'
  fi
  # A line of the index that is damaged: told with the file, and repaired from a copy.
  cp -r c whole
  file=$(echo c/step-*/r00000.h5)
  at=$(grep -abo 't2500.bias' "$file" | tail -1 | cut -d: -f1)
  printf X | dd of="$file" bs=1 seek="$at" conv=notrunc status=none
  run "$dlckpt" verify c
  [ "$status" -ne 0 ]
  [[ $output == *"r00000.h5"*"checksum is wrong"* ]]
  run "$dlckpt" export c --h5 c.h5
  [ "$status" -ne 0 ]
  "$dlckpt" verify --repair-from whole c
  "$dlckpt" diff --quiet c whole
}

@test "a checkpoint goes into several safetensors files with an index, and back" {
  needs_library
  st a.safetensors '{"x":{"dtype":"F32","shape":[1000],"data_offsets":[0,4000]},"y":{"dtype":"BF16","shape":[2,500],"data_offsets":[4000,6000]},"z":{"dtype":"I64","shape":[],"data_offsets":[6000,6008]}}' 6008
  "$dlckpt" import --safetensors a.safetensors c --step 1
  "$dlckpt" export c --safetensors out/model.safetensors --max-shard-size 4000 && false
  mkdir out
  "$dlckpt" export c --safetensors out/model.safetensors --max-shard-size 4000
  [ -e out/model-00001-of-00002.safetensors ]
  jq -e '.metadata.total_size == 6008 and .weight_map.y == "model-00002-of-00002.safetensors"' out/model.safetensors.index.json
  "$dlckpt" import --safetensors out/model.safetensors.index.json c2 --step 1
  "$dlckpt" diff --quiet c c2
  # An index that names a file elsewhere, or a tensor that is not there.
  sed -i 's/"model-00002/"..\/model-00002/' out/model.safetensors.index.json
  run "$dlckpt" import --safetensors out/model.safetensors.index.json c3 --step 1
  [ "$status" -eq 1 ]
  [[ $output == *"not a file beside it"* ]]
  echo '{"weight_map": {"q": "model-00001-of-00002.safetensors"}}' >out/i.json
  run "$dlckpt" import --safetensors out/i.json c3 --step 1
  [ "$status" -eq 1 ]
  [[ $output == *"does not agree"* ]]
}

@test "diff tells what differs and how far" {
  needs_library
  st a.safetensors '{"gone":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"F16","shape":[2,3],"data_offsets":[1,13]},"t":{"dtype":"F32","shape":[2],"data_offsets":[13,21]}}' 21
  st b.safetensors '{"new":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"F16","shape":[2,3],"data_offsets":[1,13]},"t":{"dtype":"F64","shape":[1],"data_offsets":[13,21]}}' 21
  # w[1, 1] = 0.5 (3800), w[1, 2] = NaN (7e00); little-endian
  size=$(stat -c %s b.safetensors)
  printf '\x00\x38\x00\x7e' | dd of=b.safetensors bs=1 seek=$((size - 12)) conv=notrunc status=none
  "$dlckpt" import --safetensors a.safetensors a --step 1
  "$dlckpt" import --safetensors b.safetensors b --step 2
  run "$dlckpt" diff a b
  [ "$status" -eq 1 ]
  [[ $output == *"only in A "*gone* && $output == *"only in B "*new* && $output == *"other dtype "*"float32 -> float64"* ]]
  [[ $output == *"max 0.5 at [1, 1]"*"NaN 0 in A, 1 in B"* ]]
  "$dlckpt" diff --json a b >out || [ $? -eq 1 ]
  jq -e '.equal == false and (.rows[] | select(.path == "w") | .max_abs == 0.5 and .elements_differ == 2 and .nan_b == 1 and .max_relative == 1)' out
  # A NaN on one side alone is never within a tolerance.
  run "$dlckpt" diff --tolerance 1 --select w a b
  [ "$status" -eq 1 ]
  printf '\x00\x00' | dd of=b.safetensors bs=1 seek=$((size - 10)) conv=notrunc status=none
  "$dlckpt" import --safetensors b.safetensors b --step 3
  "$dlckpt" diff --tolerance 0.5 --select w --quiet a b
  run "$dlckpt" diff --tolerance 0.4 --select w --quiet a b
  [ "$status" -eq 1 ]
  [ -z "$output" ]
}

@test "hostile safetensors files are refused with one sentence" {
  needs_library
  good='{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
  expect() { # SENTENCE
    run timeout 20 "$dlckpt" import --safetensors bad.safetensors c --step 1
    [ "$status" -eq 1 ] || [ "$status" -eq 3 ] || { echo "$1: status $status"; false; }
    [[ $output == *"$1"* ]] || { echo "wanted: $1; got: $output"; false; }
    [ "${#lines[@]}" -eq 1 ]
  }
  : >bad.safetensors; expect "too short"
  head -c 8 /dev/zero | tr '\0' '\377' >bad.safetensors; expect "not a safetensors file"
  st bad.safetensors "$good" 9; expect "its header tells of 8"
  st bad.safetensors "$good" 7; expect "its header tells of 8"
  st bad.safetensors '[1]' 0; expect "begin with '{'"
  st bad.safetensors '{"x":' 0; expect "not JSON"
  st bad.safetensors '{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' 8; expect "a name twice"
  st bad.safetensors '{"x":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}' 12; expect "begin at byte 4"
  st bad.safetensors '{"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}' 8; expect "not F32 of shape [3]"
  st bad.safetensors '{"x":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]}}' 8; expect "not F32"
  st bad.safetensors '{"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}' 8; expect "not a whole number"
  st bad.safetensors '{"x":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}' 1; expect "no dtype F4"
  st bad.safetensors '{"__metadata__":{"a":1}}' 0; expect "texts only"
  st bad.safetensors '{"a//b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' 8; expect "a//b"
  st bad.safetensors "$(printf '{"x":%s' "$(printf '[%.0s' {1..5000})")" 0; expect "not JSON"
  st bad.safetensors '{}' 0; expect "no tensor"
  run "$dlckpt" ls c
  [ "$status" -eq 3 ] # nothing was written
}

@test "import and export say in one sentence what they cannot do" {
  needs_library
  st a.safetensors '{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"x/y":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}' 9
  for line in 'import c --step 1' 'import --safetensors a.safetensors c' 'import --safetensors a.safetensors --torch b c --step 1' \
    'import --safetensors a.safetensors c --step x' 'export c' 'export c --h5 a --torch b'; do
    # shellcheck disable=SC2086
    run "$dlckpt" $line
    [ "$status" -eq 2 ]
  done
  "$dlckpt" import --safetensors a.safetensors --exclude x/y c --step 1
  run "$dlckpt" import --safetensors a.safetensors --exclude x/y c --step 1
  [ "$status" -eq 2 ]
  [[ $output == *"has a checkpoint of train step 1 already"* ]]
  touch there
  run "$dlckpt" export c --h5 there
  [ "$status" -eq 2 ]
  [[ $output == *"--force"* ]]
  [ ! -s there ]
  "$dlckpt" export c --h5 there --force
  [ -s there ]
  # What a link leads to is replaced, and a device, as /dev/null is one, never.
  ln -s there link
  cp there before
  "$dlckpt" export c --safetensors link --force
  [ -L link ] && ! cmp -s there before
  mkfifo pipe
  run timeout 20 "$dlckpt" export c --h5 pipe --force
  [ "$status" -eq 2 ]
  [[ $output == *"pipe: it is a device or a pipe, which cannot be replaced; allowed: "* ]]
  [ -p pipe ]
  run "$dlckpt" export c --safetensors nowhere/x.safetensors
  [ "$status" -eq 3 ]
  run "$dlckpt" export c --torch x.pt --python ./none
  [ "$status" -eq 3 ]
  [[ $output == *"Python with torch"* ]]
  [ ! -e x.pt ]
  # HDF5 cannot hold a dataset and a group of one name; checkpoints can.
  "$dlckpt" import --safetensors a.safetensors c --step 2
  run "$dlckpt" export c --h5 y.h5
  [ "$status" -eq 3 ]
  [[ $output == *"HDF5 cannot hold both a tensor 'x' "* || $output == *"HDF5 cannot hold both a tensor 'x/y' "* ]]
  run env DLCKPT_LIBRARY=/nowhere.so "$dlckpt" import --safetensors a.safetensors --select x c --step 3
  [ "$status" -eq 3 ]
  [[ $output == *libdlckpt* ]]
  # A damaged checkpoint is never exported.
  printf '\377' | dd of="$(echo c/step-000000000002*/r00000.h5)" bs=1 seek=5000 conv=notrunc status=none
  run "$dlckpt" export c --safetensors y.safetensors
  [ "$status" -eq 1 ]
  [ "$(find . -name '*y.safetensors*' -o -name '*y.h5*' | wc -l)" -eq 0 ]
}
