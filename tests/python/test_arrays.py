# SPDX-License-Identifier: Apache-2.0
"""The C functions through ctypes, and arrays of every element type there and back, with NumPy alone."""
import cProfile
import os
import pstats

import support
import numpy as np
from lease import Lease

import dlckpt
from dlckpt import context, dtypes, errors


class Functions(support.Case):
    def test_both_tables_of_element_types_are_the_same(self):
        for name, (number, size) in dtypes.DTYPES.items():
            self.assertEqual((context.dtype_name(number), context.dtype_size(number)), (name, size))
        self.assertEqual(context.dtype_size(99), 0)

    def test_error_codes_and_classes_are_those_of_the_library(self):
        from dlckpt import library
        lib = library.load()
        for code in range(1, 12):
            error = errors.error_for(code, "x")
            self.assertEqual((error.code, error.name), (code, lib.dlckpt_error_name(code).decode()))
        self.assertEqual(errors.error_for(200, "x").code, 200)

    def test_a_context_saves_and_restores_step_by_step(self):
        with dlckpt.Context(self.dir, rank=0, world_size=1) as c:
            self.assertEqual(c.latest(), -1)
            with self.assertRaises(dlckpt.NotFoundError):
                c.restore()
            a = np.arange(5.0)
            c.tensor("a", "float64", a.shape, a.ctypes.data, flags=1, owner=a)
            c.blob("note", b"x\0y")
            c.blob("mine", b"", per_rank=True)
            c.save(3)
            self.assertEqual(c.latest(), 3)
            a[:] = 0
            self.assertEqual(c.restore(), (3, ""))
            self.assertEqual(a.tolist(), [0, 1, 2, 3, 4])
            self.assertEqual((c.get_blob("note"), c.get_blob("mine")), (b"x\0y", b""))
            with self.assertRaises(dlckpt.NotFoundError):
                c.get_blob("none")
            c.forget("a")
            with self.assertRaises(dlckpt.NotFoundError):
                c.forget("a")
            self.assertEqual(c.exit_code(), 76)  # nobody asked for a stop

    def test_bad_arguments_are_refused_with_a_sentence(self):
        with dlckpt.Context(self.dir, rank=0, world_size=1) as c:
            a = np.zeros(4)
            for path, dtype, shape in (("", "float64", (4,)), ("a//b", "float64", (4,)), ("a", "float64", (-1,)),
                                       ("a", "float64", (1,) * 33), ("a", "object", (4,)), ("x" * 600, "float64", (4,))):
                with self.assertRaises(dlckpt.InvalidError) as caught:
                    c.tensor(path, dtype, shape, a.ctypes.data)
                self.assertTrue(str(caught.exception))
            with self.assertRaises(dlckpt.InvalidError):
                c.save(-2)
        with self.assertRaises(dlckpt.InvalidError):
            c.save(1)  # closed
        with self.assertRaises(dlckpt.Error):
            dlckpt.Context(os.path.join(self.folder, "no", "parent"), rank=0, world_size=1)

    def test_a_lease_keeps_a_second_one_out_until_it_is_released(self):
        os.mkdir(self.dir)
        with Lease(self.dir, "job 1", "1") as lease:
            self.assertTrue(lease.token)
            lease.renew()
            with self.assertRaises(dlckpt.BusyError) as caught:
                Lease(self.dir, "job 2", "2")
            self.assertIn("job 1", str(caught.exception))
        Lease(self.dir, "job 2", "2").release()

    def test_the_lease_is_no_part_of_the_interface(self):
        self.assertNotIn("Lease", dlckpt.__all__)
        self.assertFalse(hasattr(dlckpt, "Lease"))

    def test_a_missing_library_is_named(self):
        code, _, err = support.one("shards.py", self.dir, "write", DLCKPT_LIBRARY="/nowhere/libdlckpt.so.1")
        self.assertNotEqual(code, 0)
        self.assertIn("LibraryError", err)
        self.assertIn("/nowhere/libdlckpt.so.1", err)


class Arrays(support.Case):
    def there_and_back(self, value, blank):
        with dlckpt.attach(arrays={"a": value}, dir=self.dir) as job:
            job.save()
        with dlckpt.attach(arrays={"a": blank}, dir=self.dir) as job:
            self.assertTrue(job.restored)
        return blank

    def test_every_element_type_of_numpy_comes_back_bit_for_bit(self):
        random = np.random.RandomState(1)
        kept, blank = {}, {}
        for name in dtypes.DTYPES:
            if name == "bfloat16" or name.startswith("float8"):
                continue  # NumPy has none of its own; tests/python/test_objects.py has torch's
            raw = random.bytes(3 * 5 * dtypes.size(name))
            kept[name] = np.frombuffer(raw, dtype=name if name != "bool" else "uint8").reshape(3, 5).copy()
            if name == "bool":
                kept[name] = kept[name] > 127
            blank[name] = np.zeros((3, 5), dtype=name)
        with dlckpt.attach(arrays=kept, dir=self.dir) as job:
            job.save()
        with dlckpt.attach(arrays=blank, dir=self.dir):
            pass
        for name in kept:
            self.assertEqual(kept[name].tobytes(), blank[name].tobytes(), name)

    def test_scalars_empty_arrays_and_many_dimensions_come_back(self):
        for shape in ((), (0,), (3, 0, 2), (1,) * 32, (2, 3, 4, 5)):
            self.dir = os.path.join(self.folder, "c%d-%d" % (len(shape), sum(shape)))
            value = np.random.RandomState(2).rand(*shape) if shape else np.array(0.25)
            self.assertEqual(self.there_and_back(value, np.full(shape, -1.0)).tobytes(), value.tobytes())

    def test_arrays_with_gaps_and_of_foreign_byte_order_are_restored_in_place(self):
        whole = np.zeros((4, 6))
        self.there_and_back(np.arange(12.0).reshape(4, 3), whole[:, ::2])
        self.assertEqual(whole[:, ::2].tolist(), np.arange(12.0).reshape(4, 3).tolist())
        self.assertEqual(whole[:, 1::2].sum(), 0)
        self.dir += "-2"
        big = np.zeros(3, dtype=">i4")
        self.there_and_back(np.array([1, 2, 3], dtype="<i4"), big)
        self.assertEqual(big.tolist(), [1, 2, 3])

    def test_other_shapes_types_and_names_are_refused_and_nothing_is_changed(self):
        with dlckpt.attach(arrays={"a": np.ones(3), "b": np.ones(2)}, dir=self.dir) as job:
            job.save()
        for other, word in (({"a": np.zeros(4), "b": np.zeros(2)}, "float64 [4] in the program"),
                            ({"a": np.zeros(3, "float32"), "b": np.zeros(2)}, "float32"),
                            ({"a": np.zeros(3)}, "the program lacks b"),
                            ({"a": np.zeros(3), "b": np.zeros(2), "c": np.zeros(1)}, "the checkpoint lacks c")):
            with self.assertRaises(dlckpt.MismatchError) as caught:
                dlckpt.attach(arrays=other, dir=self.dir)
            self.assertIn(word, str(caught.exception))
            self.assertIn(self.dir, str(caught.exception))
            self.assertEqual(sum(a.sum() for a in other.values()), 0)

    def test_read_only_arrays_are_refused_also_where_there_is_a_checkpoint(self):
        with dlckpt.attach(arrays={"a": np.ones(3)}, dir=self.dir) as job:
            job.save()
        frozen = np.zeros(3)
        frozen.flags.writeable = False
        with self.assertRaises(dlckpt.StateError):
            dlckpt.attach(arrays={"a": frozen}, dir=self.dir)

    def test_h5py_reads_what_was_saved(self):
        try:
            import h5py
        except ImportError:
            self.skipTest("h5py is not installed")
        with dlckpt.attach(arrays={"w": np.arange(6, dtype="float32").reshape(2, 3)}, dir=self.dir) as job:
            job.save()
        found = []
        for folder, _, files in os.walk(self.dir):
            for name in files:
                if name.endswith(".h5"):
                    with h5py.File(os.path.join(folder, name), "r") as f:
                        f.visititems(lambda path, item: found.append((path, item[...])) if "arrays/w" in path and
                                     isinstance(item, h5py.Dataset) else None)
        self.assertEqual([v.tolist() for _, v in found], [[[0, 1, 2], [3, 4, 5]]])


class Many(support.Case):
    """A state of very many arrays, and arrays that share their memory."""

    def calls(self, count):
        """How many functions are called to attach so many arrays and to save them."""
        values = np.arange(count, dtype=np.float32)
        state = {"layer.%d.weight" % i: values[i:i + 1] for i in range(count)}
        profile = cProfile.Profile()
        profile.enable()
        with dlckpt.attach(dir=os.path.join(self.folder, "of-%d" % count), final_save=False, rng=False, model=state) as job:
            job.save()
        profile.disable()
        return pstats.Stats(profile).total_calls

    def test_attaching_and_saving_takes_few_calls_for_each_array(self):
        self.calls(10)  # what is made once
        self.assertLess((self.calls(1500) - self.calls(500)) / 1000, 75)

    def test_arrays_that_are_one_in_memory_are_stored_once_and_those_that_only_begin_there_are_not(self):
        def state(of):
            whole = of * np.arange(6.0).reshape(2, 3)
            return {"whole": whole, "tied": whole[:], "flat": whole.reshape(6), "row": whole[0], "column": whole[:, 0], "again": whole.reshape(6)}

        with dlckpt.attach(dir=self.dir, model=state(1)) as job:
            job.save()
        with dlckpt.open(self.dir) as reader:
            self.assertEqual(sorted(reader), ["model/column", "model/flat", "model/row", "model/whole"])
        blank = state(0)
        with dlckpt.attach(dir=self.dir, model=blank) as job:
            self.assertTrue(job.restored)
        for name, value in state(1).items():
            self.assertEqual(value.tolist(), blank[name].tolist(), name)

    def test_an_array_that_takes_the_place_of_another_is_what_the_next_save_stores(self):
        state = {"a": np.ones(2), "b": np.ones(3)}
        with dlckpt.attach(dir=self.dir, model=state) as job:
            job.save()
            for other in (np.full(2, 2.0), np.full((2, 2), 3.0)[:, 0], np.full(2, 4.0, dtype=">f8"), np.full(2, 5.0), np.full(2, 6, dtype="int32")):
                state["a"] = other
                job.train_step += 1
                job.save()
                with dlckpt.open(self.dir, step=job.train_step) as reader:
                    self.assertEqual(reader.load("model/a").tolist(), other.tolist())

    def test_names_that_no_path_can_have_are_escaped_beside_others(self):
        state = {"a/b": np.ones(1), "a": {"b": np.full(1, 2.0)}, "": np.full(1, 3.0), ".": np.full(1, 4.0), "ä": np.full(1, 5.0), "a%2Fb": np.full(1, 6.0)}
        blank = {key: {"b": np.zeros(1)} if key == "a" else np.zeros(1) for key in state}
        with dlckpt.attach(dir=self.dir, model=state) as job:
            job.save()
        with dlckpt.attach(dir=self.dir, model=blank):
            pass
        self.assertEqual(str(blank), str(state))


if __name__ == "__main__":
    support.main(needs=("numpy",))
