# SPDX-License-Identifier: Apache-2.0
"""N ranks save, M ranks restore, under shardings drawn at random, against NumPy; and the files, read with h5py alone, hold
each element once. Ranks are threads, each with a context of its own (calls release the GIL). A fixed subset of the pairs is
taken; DL_TEST_ELASTIC=full takes all of 1..8 and 16."""
import ctypes
import os
import random
import threading

import support
import numpy as np

import dlckpt
from dlckpt import dtypes, library

REPLICATED, ANOTHER_PART = 1, 8
# bfloat16 and float8 have no NumPy type: their bits are held as integers, and compared as such.
BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def run_ranks(count, body):
    """body(rank) in as many threads; the first exception is raised here."""
    failed = []

    def run(rank):
        try:
            body(rank)
        except BaseException as error:  # told to the test, whatever it is
            failed.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def cut(size, part, parts):
    """An uneven cut; early parts may be empty."""
    edge = lambda p: size * p * p // (parts * parts)
    return slice(edge(part), edge(part + 1))


def divisor(n):
    return max(d for d in range(1, n + 1) if n % d == 0 and d * d <= n)


class Sharding:
    """A way to deal out a shape to any number of ranks: slices of each rank, and whether they are held by several."""

    def __init__(self, draw, shape):
        kinds = ["whole"] + (["rows", "groups", "cyclic"] if shape else []) + (["mesh", "mesh twice"] if len(shape) > 1 else [])
        self.kind = draw.choice(kinds)
        self.shape = shape
        self.dim = draw.randrange(len(shape)) if shape else 0
        self.replicated = self.kind in ("whole", "groups", "mesh twice")

    def parts(self, rank, ranks):
        box = [slice(0, n) for n in self.shape]
        groups = divisor(ranks)
        if self.kind == "rows":
            box[self.dim] = cut(self.shape[self.dim], rank, ranks)
        elif self.kind == "groups":
            box[self.dim] = cut(self.shape[self.dim], rank % (ranks // groups), ranks // groups)
        elif self.kind in ("mesh", "mesh twice"):
            size = ranks // 2 if self.kind == "mesh twice" and ranks % 2 == 0 else ranks
            columns, at = divisor(size), rank % size
            box[0] = cut(self.shape[0], at // columns, size // columns)
            box[1] = cut(self.shape[1], at % columns, columns)
        elif self.kind == "cyclic":
            rows = range(rank, self.shape[0], ranks)
            return [[slice(r, r + 1)] + box[1:] for r in rows] or [[slice(0, 0)] + box[1:]]
        return [box]


class Subject:
    def __init__(self, draw, number, dtype, shape):
        self.path, self.dtype, self.shape = "part%d/t" % number, dtype, shape
        raw = draw.randbytes(int(np.prod(shape, dtype=np.int64)) * dtypes.size(dtype))
        self.numpy_type = np.dtype(BITS.get(dtype, dtype))
        self.full = np.frombuffer(raw, dtype=self.numpy_type if dtype != "bool" else "uint8").reshape(shape)
        if dtype == "bool":
            self.full = self.full > 127


def subjects(draw):
    found = [Subject(draw, i, name, tuple(draw.choice((0, 1, 2, 5, 13, 22)) if draw.random() < 0.5 else draw.randrange(1, 20)
                                          for _ in range(draw.randrange(4)))) for i, name in enumerate(dtypes.DTYPES)]
    for shape in ((), (0, 3), (700, 301), (2, 3, 50001)):
        found.append(Subject(draw, len(found), "float32", shape))
    return found


def memory(draw, shape, numpy_type):
    """An array of this shape that is a view of a larger one, in any order of axes: (array, the larger one)."""
    order = list(range(len(shape)))
    draw.shuffle(order)
    gaps = [draw.choice((1, 1, 2)) for _ in shape]
    large = np.zeros([shape[d] * gaps[d] + 1 for d in order], dtype=numpy_type)
    view = large[tuple(slice(0, shape[d] * gaps[d], gaps[d]) for d in order)]
    view = view.transpose([order.index(d) for d in range(len(shape))]) if shape else large[...]
    if shape and draw.random() < 0.3:
        view = view[::-1]
    assert view.shape == tuple(shape), (view.shape, shape)
    return view, large


class Elastic(support.Case):
    def register(self, context, subject, sharding, rank, ranks, view_of):
        """view_of(slices) -> array; returns [(slices, array)]."""
        call = library.load().dlckpt_tensor_strided
        held = []
        for number, box in enumerate(sharding.parts(rank, ranks)):
            array = view_of(box)
            flags = (REPLICATED if sharding.replicated else 0) | (ANOTHER_PART if number else 0)
            numbers = lambda values: (ctypes.c_int64 * max(1, len(values)))(*values)
            boxed = sharding.kind != "whole"
            code = call(context._open(), subject.path.encode(), ctypes.c_int(dtypes.number(subject.dtype)), len(subject.shape),
                        numbers(subject.shape), numbers([s.start for s in box]) if boxed else None,
                        numbers([s.stop - s.start for s in box]) if boxed else None, numbers(array.strides),
                        ctypes.c_void_p(array.ctypes.data), ctypes.c_uint(flags))
            self.assertEqual(code, 0, context.message())
            held.append((tuple(box), array))
        return held

    def save(self, all_subjects, seed, ranks):
        def body(rank):
            shared, own = random.Random(seed), random.Random(seed * 1000 + rank)
            with dlckpt.Context(self.dir, rank=rank, world_size=ranks, run_id="save", timeout_s=180) as context:
                keep = []
                for subject in all_subjects:
                    def filled(box):
                        view, large = memory(own, [s.stop - s.start for s in box], subject.numpy_type)
                        view[...] = subject.full[tuple(box)]
                        keep.append(large)
                        return view
                    keep.append(self.register(context, subject, Sharding(shared, subject.shape), rank, ranks, filled))
                context.save(1)
        run_ranks(ranks, body)

    def restore(self, all_subjects, seed, ranks):
        def body(rank):
            shared, own = random.Random(seed), random.Random(seed * 1000 + rank)
            with dlckpt.Context(self.dir, rank=rank, world_size=ranks, run_id="restore", timeout_s=180) as context:
                held, large_of = [], []
                for subject in all_subjects:
                    def blank(box):
                        view, large = memory(own, [s.stop - s.start for s in box], subject.numpy_type)
                        large_of.append(large)
                        return view
                    held += [(subject, box, array) for box, array in
                             self.register(context, subject, Sharding(shared, subject.shape), rank, ranks, blank)]
                self.assertEqual(context.restore(), (1, ""))
                for (subject, box, array), large in zip(held, large_of):
                    self.assertEqual(array.tobytes(), subject.full[box].tobytes(), subject.path)
                    array[...] = 0
                    self.assertFalse(np.any(large), subject.path + ": bytes between the elements were touched")
        run_ranks(ranks, body)

    def check_files(self, all_subjects):
        """Every element is in the files once, and h5py finds it where the attributes say."""
        try:
            import h5py
        except ImportError:
            return
        by_path = {s.path: s for s in all_subjects}
        seen = {s.path: np.zeros(s.shape, dtype=np.uint8) for s in all_subjects}
        found = set()
        for folder, _, files in os.walk(self.dir):
            for name in (n for n in files if n.endswith(".h5")):
                path = os.path.join(folder, name)
                with h5py.File(path, "r") as file:
                    datasets = []
                    file.visititems(lambda _, item: datasets.append(item) if isinstance(item, h5py.Dataset) else None)
                    for item in datasets:
                        if "global_shape" not in item.attrs:
                            continue
                        subject = by_path[os.fsdecode(item.attrs["path"])]
                        found.add(subject.path)
                        offset = item.attrs["offset"]
                        box = tuple(slice(o, o + n) for o, n in zip(offset, item.shape)) if len(item.shape) else ()
                        raw = b""
                        if item.size:
                            with open(path, "rb") as plain:
                                plain.seek(item.id.get_offset())
                                raw = plain.read(item.size * dtypes.size(subject.dtype))
                            seen[subject.path][box] += 1
                        self.assertEqual(raw, subject.full[box].tobytes(), subject.path)
                        if item.size and subject.dtype not in BITS and not subject.dtype.startswith("complex"):
                            values = np.asarray(item[()]).astype(subject.numpy_type)
                            self.assertEqual(values.tobytes(), subject.full[box].tobytes(), subject.path)
        self.assertEqual(found, set(by_path))
        for path, times in seen.items():
            self.assertTrue(np.all(times == 1), path + ": an element is there twice, or missing")

    def try_pair(self, saved_by, restored_by, seed):
        with self.subTest(saved_by=saved_by, restored_by=restored_by):
            self.dir = os.path.join(self.folder, "%d-%d-%d" % (saved_by, restored_by, seed))
            all_subjects = subjects(random.Random(seed))
            self.save(all_subjects, seed + 1, saved_by)
            self.check_files(all_subjects)
            self.restore(all_subjects, seed + 2, restored_by)

    def test_what_any_ranks_saved_any_others_restore_bit_for_bit(self):
        pairs = [(1, 3), (2, 2), (3, 1), (4, 6), (5, 2), (6, 4), (8, 5)]
        if os.environ.get("DL_TEST_ELASTIC") == "full":
            sizes = list(range(1, 9)) + [16]
            pairs = [(n, m) for n in sizes for m in sizes]
        for number, (n, m) in enumerate(pairs):
            self.try_pair(n, m, 100 + 10 * number)


if __name__ == "__main__":
    support.main(needs=("numpy",))
