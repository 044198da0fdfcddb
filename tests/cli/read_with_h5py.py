# Saves one tensor of each kind through the C library, and reads the file back with h5py alone. Prints "ok WHAT" lines.
import ctypes
import glob
import json
import sys

import h5py
import numpy as np

lib = ctypes.CDLL(sys.argv[1])
lib.dlckpt_open_error.restype = ctypes.c_char_p
lib.dlckpt_errmsg.restype = ctypes.c_char_p


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("dir", ctypes.c_char_p), ("rank", ctypes.c_int),
                ("world_size", ctypes.c_int), ("run_id", ctypes.c_char_p), ("every_s", ctypes.c_double),
                ("every_steps", ctypes.c_int64), ("keep", ctypes.c_int), ("timeout_s", ctypes.c_double)]


def call(rc, context=None):
    if rc:
        sys.exit("%d %s %s" % (rc, lib.dlckpt_open_error(), lib.dlckpt_errmsg(context) if context else ""))


options = Options(struct_size=ctypes.sizeof(Options), dir=sys.argv[2].encode(), world_size=1)
context = ctypes.c_void_p()
call(lib.dlckpt_open(ctypes.byref(options), ctypes.byref(context)))

DTYPES = {"float64": 1, "float32": 2, "float16": 3, "bfloat16": 4, "float8_e4m3fn": 5, "float8_e5m2": 6, "int64": 7,
          "int32": 8, "int16": 9, "int8": 10, "uint64": 11, "uint32": 12, "uint16": 13, "uint8": 14, "bool": 15,
          "complex64": 16, "complex128": 17}
arrays = {
    "float64": np.array([[1.25, -2.5], [np.nan, np.inf]]),
    "float32": np.array([0.5, 1.5, -2.0], np.float32),
    "float16": np.array([1.5, 65504.0, -0.0], np.float16),
    "bfloat16": np.array([0x3F80, 0xBF80, 0x4049, 0x7F80, 0x0001], np.uint16),  # 1, -1, 3.140625, inf, least subnormal
    "float8_e4m3fn": np.arange(256, dtype=np.uint8),
    "float8_e5m2": np.arange(256, dtype=np.uint8),
    "int64": np.array(-(1 << 62)),
    "int32": np.array([[[1, -2]]], np.int32),
    "int16": np.array([-32768], np.int16),
    "int8": np.array([-128, 127], np.int8),
    "uint64": np.array([(1 << 64) - 1], np.uint64),
    "uint32": np.array([(1 << 32) - 1], np.uint32),
    "uint16": np.array([65535], np.uint16),
    "uint8": np.array([255], np.uint8),
    "bool": np.array([True, False, True]),
    "complex64": np.array([1 + 2j, -3j], np.complex64),
    "complex128": np.array([1e300 - 2j]),
}
extra = {
    "scalar/float32": ("float32", np.array(2.5, np.float32)),
    "scalar/bool": ("bool", np.array(True)),
    "empty/rows": ("float32", np.zeros((0, 5), np.float32)),
    "empty/bfloat16": ("bfloat16", np.zeros((3, 0), np.uint16)),
    "large": ("float32", np.arange(100000, dtype=np.float32).reshape(100, 1000)),
    "model/layers.0.weight": ("int32", np.arange(6, dtype=np.int32).reshape(2, 3)),
}
everything = {name: (name, array) for name, array in arrays.items()}
everything.update(extra)
keep = []
for path, (dtype, array) in everything.items():
    data = np.ascontiguousarray(array).reshape(array.shape)
    keep.append(data)
    shape = (ctypes.c_int64 * max(1, data.ndim))(*data.shape)
    call(lib.dlckpt_tensor(context, path.encode(), DTYPES[dtype], data.ndim, shape, None, None,
                           ctypes.c_void_p(data.ctypes.data), 1), context)
call(lib.dlckpt_blob(context, b"rng/state", b"\x00\x01\xff", ctypes.c_size_t(3), 1), context)
call(lib.dlckpt_save(context, ctypes.c_int64(3)), context)
lib.dlckpt_close(context)

path, = glob.glob(sys.argv[2] + "/step-000000000003.*/r00000.h5")
file = h5py.File(path, "r")
assert file.userblock_size == 4096
with open(path, "rb") as raw:
    assert raw.read(8) == b"DLCKPTH5"


def same(dataset, array):
    return dataset.dtype == array.dtype and dataset.shape == array.shape and dataset[()].tobytes() == array.tobytes()


for name, (dtype, array) in everything.items():
    dataset = file[name + "/s0"]
    assert dataset.attrs["dtype"] == dtype.encode(), dataset.attrs["dtype"]
    assert dataset.attrs["path"] == name.encode()
    assert list(dataset.attrs["global_shape"]) == list(array.shape)
    assert list(dataset.attrs["offset"]) == [0] * array.ndim
    assert dataset.attrs["replicated"] == 1 and dataset.attrs["placement"] == b"Replicate"
    assert dataset.chunks is None and dataset.compression is None
    if dtype == "bfloat16":
        as_float = (array.astype(np.uint32) << 16).view(np.float32)
        assert dataset.shape == array.shape and np.array_equal(dataset[()].astype(np.float32), as_float), dataset[()]
        if array.size:
            bits = np.fromfile(path, np.uint16, offset=dataset.id.get_offset(), count=array.size)
            assert np.array_equal(bits, array.ravel())
    elif dtype in ("bool", "float8_e4m3fn", "float8_e5m2"):
        assert dataset.dtype == np.uint8 and np.array_equal(dataset[()], array.astype(np.uint8))
    else:
        assert same(dataset, array), (name, dataset.dtype, dataset[()])
    print("ok h5py reads %s of %s" % (name, "shape " + str(array.shape)))

assert file["rng/state/b0"][()].tobytes() == b"\x00\x01\xff"
print("ok h5py reads a blob")

with open(path.replace("r00000.h5", "MANIFEST.json")) as text:
    manifest = json.load(text)
entry, = manifest["files"]
table = file["_dlckpt/blocks"][()]
used = table[: len(entry["blocks"])]
assert [[int(r["offset"]), int(r["length"]), bytes(r["xxh3_128"]).hex()] for r in used] == entry["blocks"]
assert not table[len(entry["blocks"]):].tobytes().strip(b"\0")
print("ok h5py reads the block table, and it is the manifest's")
for tensor in manifest["tensors"]:
    for shard in tensor["shards"]:
        dataset = file[shard["h5"]]
        if dataset.size:
            assert dataset.id.get_offset() == shard["at"], tensor["path"]
print("ok each data set lies where the manifest says")

# Thousands of small tensors share one dataset; read as dlckpt-format(5) says.
lib.dlckpt_close.restype = None
options.dir = (sys.argv[2] + ".many").encode()
call(lib.dlckpt_open(ctypes.byref(options), ctypes.byref(context)))
many = {"m/%04d" % i: np.arange(i, i + i % 7 + 1, dtype=np.float32 if i % 2 else np.int64) for i in range(5000)}
many["m/scalar"] = np.array(2.5)
for name, array in many.items():
    shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
    call(lib.dlckpt_tensor(context, name.encode(), DTYPES[array.dtype.name], array.ndim, shape, None, None,
                           ctypes.c_void_p(array.ctypes.data), 1), context)
call(lib.dlckpt_save(context, ctypes.c_int64(4)), context)
lib.dlckpt_close(context)
path, = glob.glob(sys.argv[2] + ".many/step-*/r00000.h5")
file = h5py.File(path, "r")
data, found = file["_dlckpt/packed/data"][()], {}
for line in bytes(file["_dlckpt/packed/index"][()]).decode().splitlines():
    name, dtype, shape, at, _ = line.split("\t")
    found[name] = np.ndarray([int(n) for n in shape.split(",") if n], dtype, data, int(at))
assert list(found) == sorted(many), "the index is sorted"
for name, array in many.items():
    assert found[name].dtype == array.dtype and found[name].shape == array.shape, name
    assert found[name].tobytes() == array.tobytes(), name
print("ok packed tensors are found by their index")
