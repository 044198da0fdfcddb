# SPDX-License-Identifier: Apache-2.0
"""State as JSON and arrays, the sample order, and what the environment says: nothing is saved here."""
import ctypes
import json
import math
import os
import sys
import tempfile
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

import support  # first: it sets the path
from dlckpt import codec, library
from dlckpt.errors import MismatchError, InvalidError, StateError
from dlckpt.run_id import find_run_id
import dlckpt


def there_and_back(value, inline=False):
    found = {}
    text = json.dumps(codec.encode(value, "x", None if inline else found.__setitem__))
    return codec.decode(json.loads(text), lambda reference: found[reference["path"]])


class Codec(support.Case):
    def test_plain_values_keep_value_and_type(self):
        for value in (None, True, 0, -7, 2**130, 1.5, -0.0, 1e-310, "", "\u00fc\n\"", b"", b"\x00\xff", 1 + 2j, [], [1, [2]], (),
                      (1, (2,)), {}, {"a": 1}, {1: "x", "1": "y", None: 2, (1, 2): 3}, {"$": "tuple", "v": 1}, {1, 2},
                      frozenset({"a"}), Counter("aab"), OrderedDict([("z", 1), ("a", 2)]), deque([1, 2], maxlen=3)):
            back = there_and_back(value)
            self.assertEqual(repr(back), repr(value))
            self.assertIs(type(back), type(value))

    def test_infinities_and_not_a_number_come_back(self):
        self.assertEqual(there_and_back([math.inf, -math.inf]), [math.inf, -math.inf])
        self.assertTrue(math.isnan(there_and_back(math.nan)))
        self.assertEqual(math.copysign(1, there_and_back(-0.0)), -1.0)

    def test_what_cannot_be_stored_is_refused_with_its_place_and_type(self):
        Point = namedtuple("Point", "x y")
        for value, named in ((object(), "object"), (lambda: 1, "function"), (defaultdict(list), "defaultdict"),
                             (Point(1, 2), "Point"), (range(3), "range"), (ValueError, "type")):
            with self.assertRaises(StateError) as caught:
                codec.encode({"a": [1, value]}, "obj", None)
            self.assertIn("obj/a/1", str(caught.exception))
            self.assertIn(named, str(caught.exception))

    def test_endless_nesting_is_refused(self):
        loop = []
        loop.append(loop)
        with self.assertRaises(StateError):
            codec.encode(loop, "x", None)

    def test_a_value_of_a_newer_version_is_refused(self):
        with self.assertRaises(StateError) as caught:
            codec.decode({"$": "hologram", "v": []}, None)
        self.assertIn("hologram", str(caught.exception))

    def test_keys_with_slashes_dots_and_percent_give_different_paths(self):
        parts = [codec.escape(key) for key in ("a/b", "a%2Fb", "a", ".", "..", "", "%", 1, 1.5, (1, "x"), None, "\n", "\x7f")]
        self.assertEqual(len(set(parts)), len(parts))
        for part in parts:
            self.assertNotIn("/", part)
            self.assertNotIn(part, ("", ".", ".."))
            self.assertTrue(part.isprintable())

    def test_keys_one_and_text_one_do_not_share_a_path(self):
        import numpy as np
        value = {1: np.zeros(1), "1": np.ones(1)}
        back = there_and_back(value)
        self.assertEqual((back[1][0], back["1"][0]), (0.0, 1.0))

    def test_numpy_scalars_and_arrays_keep_value_and_type(self):
        import numpy as np
        for inline in (False, True):
            for value in (np.float32(0.1), np.int8(-3), np.bool_(True), np.float64(2.5), np.complex64(1j)):
                back = there_and_back(value, inline)
                self.assertIs(type(back), type(value))
                self.assertEqual(back, value)
            for value in (np.arange(6, dtype=np.int16).reshape(2, 3), np.zeros((0, 4)), np.array(3.5), np.arange(4)[::2],
                          np.array([1, 2], dtype=">i4")):
                back = there_and_back(value, inline)
                self.assertEqual(back.shape, value.shape)
                self.assertTrue((back == value).all())

    def test_arrays_of_objects_text_and_dates_are_refused(self):
        import numpy as np
        for value in (np.array([None]), np.array(["a"]), np.array(["2020-01-01"], dtype="datetime64[D]"),
                      np.zeros(1, dtype=[("a", "i4")]), np.ma.masked_array([1], [True])):
            with self.assertRaises(StateError):
                codec.encode(value, "x", {}.__setitem__)

    def test_importing_dlckpt_imports_neither_numpy_nor_torch(self):
        code = "import sys, dlckpt; dlckpt.attach(); sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
        import subprocess
        self.assertEqual(subprocess.call([sys.executable, "-c", code], env={"PYTHONPATH": support.PACKAGE},
                                         stderr=subprocess.DEVNULL), 0)


class Samples(support.Case):
    def collect(self, world_size, steps, state=None, **options):
        """The global batches of ``steps`` train steps, put together from all learners, and the state after them."""
        parts = [dlckpt.GlobalBatches(10, options.get("global_batch", 4), seed=3, rank=r, world_size=world_size)
                 for r in range(world_size)]
        if state is not None:
            for part in parts:
                part.load_state_dict(state)
        return [sum((next(part) for part in parts), []) for _ in range(steps)], parts[0].state_dict()

    def test_every_sample_is_trained_once_in_each_data_epoch(self):
        batches, _ = self.collect(1, 5)
        flat = sum(batches, [])
        self.assertEqual(sorted(flat[:10]), list(range(10)))
        self.assertEqual(sorted(flat[10:]), list(range(10)))
        self.assertNotEqual(flat[:10], flat[10:])

    def test_the_samples_of_a_train_step_do_not_depend_on_the_number_of_learners(self):
        for world_size in (2, 3, 4):
            self.assertEqual(self.collect(world_size, 7)[0], self.collect(1, 7)[0])

    def test_after_a_resume_at_another_world_size_no_sample_is_skipped_or_repeated(self):
        whole, _ = self.collect(1, 9)
        for before, after in ((2, 3), (4, 2), (1, 4), (3, 1)):
            first, state = self.collect(before, 4)
            rest, _ = self.collect(after, 5, state)
            self.assertEqual(first + rest, whole)

    def test_another_global_batch_goes_on_at_the_same_sample(self):
        first, state = self.collect(2, 2)
        rest, _ = self.collect(2, 2, state, global_batch=6)
        flat = sum(self.collect(1, 5)[0], [])
        self.assertEqual(sum(first + rest, []), flat[:20])

    def test_unequal_parts_and_their_loss_weights_average_to_the_global_mean(self):
        parts = [dlckpt.GlobalBatches(10, 7, rank=r, world_size=3) for r in range(3)]
        self.assertEqual([part.local_batch for part in parts], [3, 2, 2])
        mean = sum(part.loss_weight * sum(i) / len(i) for part, i in [(p, next(p)) for p in parts]) / 3
        whole = next(dlckpt.GlobalBatches(10, 7, rank=0, world_size=1))
        self.assertAlmostEqual(mean, sum(whole) / 7)

    def test_without_shuffling_the_order_is_that_of_the_data(self):
        batches = dlckpt.GlobalBatches(5, 3, shuffle=False, rank=0, world_size=1)
        self.assertEqual([next(batches) for _ in range(3)], [[0, 1, 2], [3, 4, 0], [1, 2, 3]])
        self.assertEqual(batches.data_epoch, 1)

    def test_a_loader_that_draws_ahead_does_not_move_the_position(self):
        batches = dlckpt.GlobalBatches(10, 4, rank=0, world_size=1)
        ahead = iter(batches)
        drawn = [next(ahead) for _ in range(5)]
        job = dlckpt.attach(data=batches)
        for _ in job.steps(2):
            pass
        self.assertEqual(batches.state_dict()["cursor"], 8)
        again = dlckpt.GlobalBatches(10, 4, rank=0, world_size=1)
        again.load_state_dict(batches.state_dict())
        self.assertEqual(next(again), drawn[2])

    def test_an_iteration_begun_before_the_restore_is_refused(self):
        batches = dlckpt.GlobalBatches(10, 4, rank=0, world_size=1)
        ahead = iter(batches)
        next(ahead)
        batches.load_state_dict(batches.state_dict())
        with self.assertRaises(InvalidError):
            next(ahead)

    def test_the_position_in_another_data_set_or_order_is_refused(self):
        state = dlckpt.GlobalBatches(10, 4, seed=1, rank=0, world_size=1).state_dict()
        for other in (dict(n_samples=11), dict(seed=2), dict(shuffle=False)):
            options = dict(dict(n_samples=10, global_batch=4, seed=1, rank=0, world_size=1), **other)
            with self.assertRaises(MismatchError) as caught:
                dlckpt.GlobalBatches(**options).load_state_dict(state)
            self.assertIn(list(other)[0], str(caught.exception))

    def test_bad_arguments_are_refused(self):
        for options in (dict(n_samples=0, global_batch=1), dict(n_samples=4, global_batch=0),
                        dict(n_samples=4, global_batch=1, seed=-1), dict(n_samples=4, global_batch=2, rank=0, world_size=3),
                        dict(n_samples=4, global_batch=2, rank=2, world_size=2), dict(n_samples=4, global_batch=2, rank=0)):
            with self.assertRaises(InvalidError):
                dlckpt.GlobalBatches(**options)

    def test_the_order_is_the_same_in_every_version(self):
        batches = dlckpt.GlobalBatches(10, 4, seed=3, rank=0, world_size=1)
        self.assertEqual([next(batches) for _ in range(3)], [[9, 1, 0, 8], [2, 4, 3, 5], [7, 6, 5, 1]])


RANKS = ("DL_ROLE_RANK", "DL_ROLE_SIZE", "DL_RANK", "DL_WORLD_SIZE", "RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
         "PMIX_RANK", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
NAMES = ("DL_RUN_ID", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT", "PMIX_NAMESPACE", "SLURM_JOB_ID",
         "SLURM_STEP_ID", "SLURM_RESTART_COUNT")


def by_the_library(run_id=None, world_size=0):
    """((rank, world size), run id) that libdlckpt finds in the environment for a program in C; None if it refuses what is there."""
    lib = library.load()
    options = library.Options(struct_size=ctypes.sizeof(library.Options), world_size=world_size, run_id=run_id)
    found = library.Settings(struct_size=ctypes.sizeof(library.Settings))
    if lib.dlckpt_resolve(ctypes.byref(options), ctypes.byref(found)) != library.OK:
        return None
    return (found.rank, found.world_size), found.run_id.decode()


class OneOrder(support.Case):
    """What the environment says of the learners has one order, in C and in Python."""

    def test_rank_and_size_are_those_that_the_library_finds(self):
        pairs = list(zip(RANKS[::2], RANKS[1::2]))
        table = [{}]
        for i, (rank, size) in enumerate(pairs):
            table += [{rank: "1", size: "3"}, {rank: "1"}, {size: "3"}, {rank: "", size: "3"}]
            table += [{rank: bad, size: "3"} for bad in ("x", "3", "-1", " 1", "1_0", "+1", "0x1", "\u0661", "1" * 30)]
            table += [{rank: "0", size: bad} for bad in ("0", "-1", "", "2.0")]
            table += [{rank: "bad", other_size: "4"} for other_size in (pairs[i - 1][1],)]
            for j, (other_rank, other_size) in enumerate(pairs):
                if i != j:
                    table += [{rank: "1", size: "3", other_rank: "2", other_size: "4"}, {rank: "bad", other_rank: "2", other_size: "4"}]
        self.assertGreater(len(table), 100)
        for said in table:
            with support.environment(**{**dict.fromkeys(RANKS), **said}):
                there = by_the_library(run_id=b"r")
                try:
                    here = tuple(dlckpt.find_world())
                except InvalidError:
                    here = None
                self.assertEqual(here, there and there[0], said)

    def test_the_run_id_is_the_one_that_the_library_finds(self):
        step = {"SLURM_PROCID": "1", "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "3"}
        torchrun = {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "n1", "MASTER_PORT": "29500", "TORCHELASTIC_RESTART_COUNT": "2"}
        table = [(step, "slurm-12.3-0"), ({**step, "SLURM_RESTART_COUNT": "1"}, "slurm-12.3-1"),
                 ({**step, "PMIX_NAMESPACE": "slurm.pmix.12.3"}, "slurm-12.3-0"),
                 # Of mpirun in a job, the first node's learners lack Slurm's step, and the others have it.
                 ({**step, "PMIX_NAMESPACE": "prterun-n1-77@1"}, "pmix-prterun-n1-77@1"),
                 ({"SLURM_JOB_ID": "12", "PMIX_NAMESPACE": "prterun-n1-77@1"}, "pmix-prterun-n1-77@1"),
                 ({"PMIX_NAMESPACE": "prterun-n1-77@1"}, "pmix-prterun-n1-77@1"),
                 # torchrun starts its learners again within the job step.
                 ({**step, **torchrun}, "none@n1:29500#2"), ({**torchrun, "PMIX_NAMESPACE": "prterun-n1-77@1"}, "none@n1:29500#2"),
                 ({**step, **torchrun, "DL_RUN_ID": "mine"}, "mine"), ({}, None)]
        for said, expected in table:
            with support.environment(**{**dict.fromkeys(NAMES + RANKS), **said}):
                there = by_the_library(world_size=2)
                self.assertEqual(there and there[1], expected, said)
                given = find_run_id(dlckpt.World(0, 2))
                here = by_the_library(run_id=given and given.encode(), world_size=2)
                self.assertEqual(here and here[1], expected, said)


class World(support.Case):
    def test_rank_and_size_are_found_in_the_launchers_order(self):
        with support.environment(SLURM_PROCID="1", SLURM_STEP_NUM_TASKS="2"):
            self.assertEqual(dlckpt.find_world(), (1, 2))
            with support.environment(RANK="2", WORLD_SIZE="3"):
                self.assertEqual(dlckpt.find_world(), (2, 3))
                with support.environment(DL_RANK="3", DL_WORLD_SIZE="4"):
                    self.assertEqual(dlckpt.find_world(), (3, 4))
        self.assertEqual(dlckpt.find_world(), (0, 1))

    def test_senseless_ranks_are_refused(self):
        for rank, size in (("x", "2"), ("2", "2"), ("-1", "2"), ("0", "0")):
            with support.environment(RANK=rank, WORLD_SIZE=size), self.assertRaises(InvalidError):
                dlckpt.find_world()

    def test_a_batch_step_without_tasks_is_one_learner(self):
        with support.environment(SLURM_PROCID="0", SLURM_NTASKS="4"):
            self.assertEqual(dlckpt.find_world(), (0, 1))

    def test_intervals_are_read_as_the_flag_reads_them(self):
        from dlckpt.settings import parse_every
        self.assertEqual([tuple(parse_every(e)) for e in ("10m", "1h30m", "45", 90, "50steps", "1step", "auto", None)],
                         [(600, 0), (5400, 0), (45, 0), (90, 0), (0, 50), (0, 1), (-1, 0), (0, 0)])
        for bad in ("", "0", "0steps", "m", "10x", "-5s", 0, -1, 1e9, True, "ten minutes", [1]):
            with self.assertRaises(InvalidError):
                parse_every(bad)

    def test_who_counts_of_an_argument_and_the_environment(self):
        """The table of tests/unit/checkpoint_c_api.cpp, where attach() has the environment come first in what it names."""
        from dlckpt.settings import find_settings
        mine = {"dir": "/mine", "every": "1m", "keep": 5, "mode": "lazy"}
        asked = {"DL_CHECKPOINT": "/asked,every=10m,keep=7", "DL_CHECKPOINT_MODE": "sync"}
        table = [({}, {}, (None, (0, 0), 3, "async", False)), (mine, {}, ("/mine", (60, 0), 5, "lazy", False)),
                 ({}, asked, ("/asked", (600, 0), 7, "sync", True)), (mine, asked, ("/asked", (600, 0), 7, "sync", True)),
                 (mine, {"CHECKPOINT_DIR": "/c"}, ("/mine", (60, 0), 5, "lazy", False)),
                 ({}, {"CHECKPOINT_DIR": "/c"}, ("/c", (0, 0), 3, "async", False)),
                 (mine, {"DL_CHECKPOINT": "/asked"}, ("/asked", (60, 0), 5, "lazy", False)),
                 (mine, {"DL_CHECKPOINT": "/asked", "DL_CHECKPOINT_DIR": "/there"}, ("/there", (60, 0), 5, "lazy", False))]
        for given, said, expected in table:
            with support.environment(**said):
                found = find_settings(given.get("dir"), given.get("every"), given.get("keep", 0), given.get("mode"))
            self.assertEqual(found[:5], expected, (given, said))
            self.assertEqual(found.remark != "", bool(given) and found.dir != "/mine", found.remark)

    def test_a_context_of_its_own_takes_its_arguments_before_the_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            mine, asked = os.path.join(folder, "mine"), os.path.join(folder, "asked")
            with support.environment(DL_CHECKPOINT_DIR=asked), dlckpt.Context(mine):
                self.assertEqual(os.listdir(folder), ["mine"])

    def test_wrong_settings_are_refused_with_the_value_and_what_is_allowed(self):
        from dlckpt.settings import find_settings
        with self.assertRaisesRegex(InvalidError, "keep=-1; allowed: "):
            find_settings("/c", None, -1)
        with self.assertRaisesRegex(InvalidError, "mode='quick'; allowed: async, sync, lazy"):
            find_settings("/c", mode="quick")
        with support.environment(DL_CHECKPOINT_MODE="quick"):
            with self.assertRaisesRegex(InvalidError, "DL_CHECKPOINT_MODE is 'quick'; allowed: async, sync, lazy"):
                find_settings("/c")


if __name__ == "__main__":
    support.main(needs=("numpy",))
