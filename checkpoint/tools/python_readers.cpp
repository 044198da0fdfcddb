// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/python_readers.h"

namespace dl::ckpt::tool {

const char* const kCommon = R"(
import json, struct, sys
def fail(text):
    sys.stderr.write(str(text).strip().replace("\n", " ") + "\n")
    sys.exit(1)
# tensors: a list of (name, dtype, shape, bytes), each with what pieces_of(place in the list) yields.
def write(tensors, pieces_of):
    header, at = {}, 0
    for name, kind, shape, size in tensors:
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    out = sys.stdout.buffer
    try:
        out.write(struct.pack("<Q", len(text)) + text)
        out.flush()
    except OSError as error:
        fail("the names of the tensors cannot be handed on: %s" % error)
    for place, (name, kind, shape, size) in enumerate(tensors):
        try:
            for piece in pieces_of(place):
                out.write(piece)
            out.flush()
        except Exception as error:
            fail("'%s' cannot be read: %s" % (name, error))
)";

const char* const kTorchNames = R"(
try:
    import torch
except Exception as error:
    sys.stderr.write("no torch: %s\n" % error)
    sys.exit(77)
NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
         "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64",
         "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64", "C128": "complex128"}
)";

namespace {

constexpr const char* kReadTorch = R"(
import ctypes, inspect, mmap, zipfile
arguments = {"map_location": "cpu", "weights_only": True}
parameters = inspect.signature(torch.load).parameters
if "weights_only" not in parameters:
    fail("torch %s cannot load safely (weights_only); 1.13 or later is needed" % torch.__version__)
mapped = False
def little():
    with zipfile.ZipFile(sys.argv[1]) as archive:
        return all(archive.read(name) == b"little" for name in archive.namelist() if name.endswith("/byteorder"))
def load():
    global mapped
    if "mmap" in parameters:
        try:
            loaded = torch.load(sys.argv[1], mmap=True, **arguments)
            mapped = little()
            return loaded
        except RuntimeError:
            pass  # the older file format
    return torch.load(sys.argv[1], **arguments)
try:
    loaded = load()
except Exception as error:
    fail("torch cannot load it: %s" % str(error).split("\n")[0])
tensors, left = {}, 0
def walk(name, value):
    global left
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_quantized:
            fail("tensor '%s' is sparse or quantized" % name)
        if not name or name in tensors:
            fail("two tensors would have the name '%s'" % name)
        tensors[name] = value.detach()
    elif isinstance(value, dict):
        for key, item in value.items():
            walk("%s/%s" % (name, key) if name else str(key), item)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            walk("%s/%d" % (name, index) if name else str(index), item)
    else:
        left += 1
walk("", loaded)
names = {getattr(torch, ours): theirs for theirs, ours in NAMES.items() if hasattr(torch, ours)}
described = []
for name, tensor in tensors.items():
    if tensor.dtype not in names:
        fail("tensor '%s' has dtype %s, which checkpoints do not have" % (name, tensor.dtype))
    described.append((name, names[tensor.dtype], tensor.shape, tensor.numel() * tensor.element_size()))
libc = ctypes.CDLL(None)
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def let_go(tensor, piece):
    # Pages of the mapped file that were not written to: they are read again where they are needed again.
    storage = tensor.untyped_storage() if mapped else None
    if storage is None or not storage.data_ptr() <= piece.data_ptr() < storage.data_ptr() + storage.nbytes():
        return
    begin = -(-piece.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (piece.data_ptr() + piece.numel()) // mmap.PAGESIZE * mmap.PAGESIZE
    if end > begin:
        libc.madvise(begin, end - begin, 4)  # MADV_DONTNEED
kept = list(tensors.values())
def pieces_of(place):
    tensor = kept[place]
    if tensor.is_conj():
        tensor = tensor.resolve_conj()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    flat = tensor.contiguous().reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    for begin in range(0, flat.numel(), 1 << 24):
        piece = flat[begin:begin + (1 << 24)].view(torch.uint8)
        yield memoryview(piece.numpy())
        let_go(tensor, piece)
write(described, pieces_of)
if left:
    sys.stderr.write("%d %s\n" % (left, "value that is not a tensor" if left == 1 else "values that are not tensors"))
)";

// The description (.metadata) is a pickle.
constexpr const char* kReadDcp = R"(
import enum, os, pickle
def member(kind, name):
    if not (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        fail("%s asks for a member '%s' of something that is no enumeration; it is not loaded" % (path, name))
    return kind[name]
# Where a pickle names the left one, it gets the right one.
INSTEAD = {("builtins", "getattr"): member}
for module in "pathlib", "pathlib._local":
    for name in "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath":
        INSTEAD[module, name] = lambda *parts: None
ALLOWED = {"torch.distributed.checkpoint.metadata": None, "torch.distributed.checkpoint.filesystem": ("_StorageInfo", "_StoragePrefix"),
           "torch": None, "torch.serialization": ("_get_layout",), "collections": ("OrderedDict",), "builtins": ("set", "frozenset")}
class Metadata(pickle.Unpickler):
    """Of what a pickle may name only what describes tensors is made; functions that run code are not among it."""
    def find_class(self, module, name):
        if (module, name) in INSTEAD:
            return INSTEAD[module, name]
        names = ALLOWED.get(module, ())
        good = names is None or name in names
        if good and module == "torch":
            good = name in ("Size", "device") or isinstance(getattr(torch, name, None), (torch.dtype, torch.layout))
        if good and module.endswith(".metadata"):
            good = isinstance(getattr(sys.modules.get(module), name, None), type) and \
                getattr(sys.modules[module], name).__module__ == module
        if not good:
            fail("%s names %s.%s, which the description of tensors does not need; it is not loaded" % (path, module, name))
        return super().find_class(module, name)
path = os.path.join(sys.argv[1], ".metadata")
try:
    import torch.distributed.checkpoint.metadata, torch.distributed.checkpoint.filesystem
    with open(path, "rb") as file:
        metadata = Metadata(file).load()
    keys = metadata.planner_data if isinstance(metadata.planner_data, dict) else {}
    parts = {}
    for index, where in metadata.storage_data.items():
        parts.setdefault(index.fqn, []).append((tuple(index.offset or ()), where))
except Exception as error:
    fail("%s: torch.distributed.checkpoint cannot read it: %s" % (path, error))
names = {getattr(torch, ours): theirs for theirs, ours in NAMES.items() if hasattr(torch, ours)}
described, order, taken, left = [], [], set(), 0
for fqn, entry in metadata.state_dict_metadata.items():
    if not hasattr(entry, "chunks"):
        left += 1
        continue
    dtype = entry.properties.dtype
    if dtype not in names:
        fail("tensor '%s' has dtype %s, which checkpoints do not have" % (fqn, dtype))
    name = "/".join(str(part) for part in keys.get(fqn) or (fqn,))
    if name in taken:
        fail("two tensors would have the name '%s'" % name)
    taken.add(name)
    described.append((name, names[dtype], entry.size, entry.size.numel() * torch.empty((), dtype=dtype).element_size()))
    order.append((fqn, entry.size, dtype))
def stored(where):
    import io
    if getattr(where, "transform_descriptors", None):
        fail("it is compressed (%s), which is not supported" % ", ".join(where.transform_descriptors))
    name = os.path.join(sys.argv[1], os.path.basename(where.relative_path))
    with open(name, "rb") as file:
        file.seek(where.offset)
        return torch.load(io.BytesIO(file.read(where.length)), map_location="cpu", weights_only=True).detach()
def pieces_of(place):
    fqn, size, dtype = order[place]
    whole, filled = torch.empty(size, dtype=dtype), 0
    for offset, where in parts.get(fqn, ()):
        part = stored(where)
        offset = offset or (0,) * part.dim()
        whole[tuple(slice(a, a + n) for a, n in zip(offset, part.shape))] = part
        filled += part.numel()
    if filled != whole.numel():
        raise ValueError("the files hold %d of its %d elements" % (filled, whole.numel()))
    flat = whole.reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    for begin in range(0, flat.numel(), 1 << 24):
        yield memoryview(flat[begin:begin + (1 << 24)].view(torch.uint8).numpy())
write(described, pieces_of)
if left:
    sys.stderr.write("%d %s\n" % (left, "value that is not a tensor" if left == 1 else "values that are not tensors"))
)";

constexpr const char* kHdf5Names = R"(
try:
    import h5py, numpy
except Exception as error:
    sys.stderr.write("%s\n" % error)
    sys.exit(77)
)";

constexpr const char* kReadHdf5 = R"(
import os
left, links, found = 0, 0, []
folder = os.path.dirname(os.path.abspath(sys.argv[1]))
def elsewhere(name, data):
    # HDF5 gives zeros, and no error, where a source of a virtual dataset is missing, or one of raw bytes is cut off.
    if data.external:
        for path, offset, size in data.external:
            # HDF5 looks there: beside the program, not beside the file.
            there = os.path.join(os.environ.get("HDF5_EXTFILE_PREFIX", "").replace("${ORIGIN}", folder), path)
            if size != h5py.h5f.UNLIMITED and (not os.path.isfile(there) or os.path.getsize(there) < offset + size):
                fail("dataset '%s' has its bytes in %s, which lacks some of them" % (name, there))
    if not data.is_virtual:
        return
    for part in data.virtual_sources():
        there = os.path.join(folder, part.file_name)
        if not os.path.exists(there) and os.path.exists(part.file_name):
            there = part.file_name
        try:
            with h5py.File(source.filename if part.file_name == "." else there, "r") as other:
                shape, taken = other[part.dset_name].shape, part.src_space
                if taken.get_select_type() == h5py.h5s.SEL_ALL:
                    whole = int(numpy.prod(shape, dtype=object)) == part.vspace.get_select_npoints()
                else:
                    last = taken.get_select_bounds()[1]
                    whole = len(shape) == len(last) and all(i < n for n, i in zip(shape, last))
                if not whole:
                    fail("virtual dataset '%s': '%s' in %s has another shape than when it was made part of it" % (name, part.dset_name, there))
        except (OSError, KeyError) as error:
            fail("virtual dataset '%s' has a source that cannot be read: '%s' in %s: %s" % (name, part.dset_name, there, error))
KINDS = {"f2": "F16", "f4": "F32", "f8": "F64", "i1": "I8", "i2": "I16", "i4": "I32", "i8": "I64", "u1": "U8", "u2": "U16", "u4": "U32",
         "u8": "U64", "b1": "BOOL", "c8": "C64", "c16": "C128"}
def visit(name, thing):
    global left
    if not isinstance(thing, h5py.Dataset):
        return
    try:
        kind = KINDS.get(thing.dtype.str[1:])
    except Exception as error:
        fail("dataset '%s' is of a type that NumPy does not have: %s" % (name, error))
    if kind is None or thing.shape is None:
        left += 1
    else:
        elsewhere(name, thing)
        found.append((name, thing, kind))
def count_links(group):
    global links
    for name in group:
        link = group.get(name, getlink=True)
        links += not isinstance(link, h5py.HardLink)
        if isinstance(link, h5py.HardLink) and isinstance(group[name], h5py.Group) and group[name].id not in seen:
            seen.add(group[name].id)
            count_links(group[name])
def chunks(data):
    if not data.shape:
        yield data[()]
        return
    rows = max(1, (16 << 20) // max(1, data.dtype.itemsize * int(numpy.prod(data.shape[1:], dtype=object))))
    if data.chunks:
        rows = -(-rows // data.chunks[0]) * data.chunks[0]
    for begin in range(0, data.shape[0], rows):
        yield data[begin:begin + rows]
try:
    source = h5py.File(sys.argv[1], "r")
    source.visititems(visit)
    seen = {source.id}
    count_links(source)
except Exception as error:
    fail("h5py cannot open it: %s" % error)
def pieces_of(place):
    for part in chunks(found[place][1]):
        part = numpy.asarray(part)
        yield part.astype(part.dtype.newbyteorder("<"), order="C", copy=False).tobytes()
write([(name, kind, data.shape, int(numpy.prod(data.shape, dtype=object)) * data.dtype.itemsize) for name, data, kind in found], pieces_of)
said = ["%d %s" % (count, one if count == 1 else many) for count, one, many in (
    (left, "dataset that holds no numbers", "datasets that hold no numbers"), (links, "soft or external link", "soft or external links"))
        if count]
if said:
    sys.stderr.write(" and ".join(said) + "\n")
)";

}  // namespace

const PythonReader kTorchReader = {"torch", "torch", kTorchNames, kReadTorch};
const PythonReader kDcpReader = {"torch", "torch", kTorchNames, kReadDcp};
const PythonReader kHdf5Reader = {"HDF5", "h5py", kHdf5Names, kReadHdf5};

std::string python_program(const PythonReader& reader) {
  return std::string(kCommon) + reader.begin + reader.rest;
}

}  // namespace dl::ckpt::tool
