# SPDX-License-Identifier: Apache-2.0
"""A device that fails, or memory that is missing, while a framework copies a tensor: an error of dlckpt that names the tensor, and in a
training a save that is reported as failed. No GPU is needed: PyTorch's own functions are replaced by some that fail as on one."""
import types
from unittest import mock

import support
import numpy as np
import torch
from torch import nn

import dlckpt

ILLEGAL = RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported")
MISSING = RuntimeError("[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
                       "allocate 8 bytes")


class OutOfMemoryError(RuntimeError):
    """As torch.OutOfMemoryError, which older versions have elsewhere."""


FULL = OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB")


def conjugate():
    """A tensor that has to be copied for a save and for a restore, as one has to be that lies on a GPU in another order."""
    return torch.complex(torch.arange(4.0), torch.ones(4)).conj()


class DeviceErrors(support.Case):
    def attach(self, **more):
        return dlckpt.attach(dir=self.dir, final_save=False, rng=False, **more)

    def test_a_copy_for_a_save_that_fails_is_an_error_of_dlckpt_with_the_name_of_the_tensor(self):
        for failure, kind in ((ILLEGAL, dlckpt.IoError), (FULL, dlckpt.NoMemoryError)):
            with self.attach(tree={"a": torch.ones(2), "odd": conjugate()}) as job:
                with mock.patch.object(torch.Tensor, "copy_", side_effect=failure):
                    with self.assertRaisesRegex(kind, "^tree/odd: its values could not be copied: (RuntimeError: CUDA error: an illegal "
                                                      "|OutOfMemoryError: CUDA out of memory. Tried)"):
                        job.save()
                job.save()  # as if nothing had been
                self.assertEqual(job.saves, 1)
            self.dir += "x"

    def test_memory_for_a_copy_that_is_missing_is_an_error_of_dlckpt_with_the_name_of_the_tensor(self):
        with self.attach(tree={"odd": conjugate()}) as job:
            with mock.patch.object(torch, "empty", side_effect=MISSING):
                with self.assertRaisesRegex(dlckpt.NoMemoryError, "^tree/odd: .*can't allocate memory"):
                    job.save()
            job.save()
        self.dir += "x"
        with self.attach(tree={"odd": np.arange(3.0).astype(">f8")}) as job:
            with mock.patch.object(np, "ascontiguousarray", side_effect=MemoryError("Unable to allocate 24 B")):
                with self.assertRaisesRegex(dlckpt.NoMemoryError, "^tree/odd: .*MemoryError: Unable to allocate"):
                    job.save()

    def test_of_a_periodic_save_it_is_told_and_training_goes_on(self):
        failures = [ILLEGAL, FULL]
        real = torch.Tensor.copy_

        def copy(self, *args, **options):
            if self.is_complex() and failures:
                raise failures.pop()
            return real(self, *args, **options)
        with mock.patch.object(torch.Tensor, "copy_", copy):
            steps = list(self.attach(tree={"odd": conjugate()}, every="1steps").steps(4))
        self.assertEqual(steps, [0, 1, 2, 3])
        self.saying("was not saved: tree/odd: its values could not be copied: OutOfMemoryError: CUDA out of memory")
        self.saying("was not saved: tree/odd: its values could not be copied: RuntimeError: CUDA error")

    def test_in_the_record_of_a_learner_too(self):
        with self.attach(own=dlckpt.PerRank({"odd": conjugate()})) as job:
            with mock.patch.object(torch.Tensor, "copy_", side_effect=ILLEGAL):
                with self.assertRaisesRegex(dlckpt.IoError, "own/odd: its values"):
                    job.save()

    def test_a_restore_says_which_tensor_and_whether_anything_was_changed(self):
        with self.attach(tree={"odd": conjugate()}) as job:
            job.state["extra"] = torch.ones(3)
            job.save()
        with mock.patch.object(torch, "empty", side_effect=MISSING):
            with self.assertRaisesRegex(dlckpt.NoMemoryError, "^(tree/odd|state/extra): no memory could be made for it: ") as caught:
                self.attach(tree={"odd": conjugate()})
        self.assertNotIn("two states", str(caught.exception))
        with mock.patch.object(torch, "empty", side_effect=MISSING):  # the states of the random generators are made first
            with self.assertRaisesRegex(dlckpt.NoMemoryError, r"^an array of uint8 \[[0-9]+\] in a record: "):
                dlckpt.attach(dir=self.dir, tree={"odd": conjugate()})
        with mock.patch.object(torch.Tensor, "copy_", side_effect=ILLEGAL):
            with self.assertRaisesRegex(dlckpt.IoError, "^tree/odd: its values could not be copied: .*holds values of two states"):
                self.attach(tree={"odd": conjugate()})

    def test_what_is_read_without_a_job_names_the_tensor(self):
        with self.attach(tree={"odd": conjugate()}) as job:
            job.save()
        with dlckpt.open(self.dir) as checkpoint:
            with mock.patch.object(torch, "empty", side_effect=MISSING):
                with self.assertRaisesRegex(dlckpt.NoMemoryError, "^tree/odd: no memory"):
                    checkpoint.load("tree/odd")
            with mock.patch.object(torch.Tensor, "copy_", side_effect=ILLEGAL):
                with self.assertRaisesRegex(dlckpt.IoError, "^tree/odd: "):
                    checkpoint.load_into({"odd": conjugate()}, "tree")

    def test_the_state_of_an_optimizer_that_does_not_reach_its_device_is_named(self):
        from dlckpt import torch_adapter
        device = types.SimpleNamespace(type="cuda")
        parameter = types.SimpleNamespace(shape=torch.Size([2]), device=device, dim=lambda: 1)
        optimizer = types.SimpleNamespace(param_groups=[{"params": [parameter]}])
        state = {"state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.ones(2)}}}
        with mock.patch.object(torch.Tensor, "to", side_effect=FULL):
            with self.assertRaisesRegex(dlckpt.NoMemoryError, "^opt/state/0/exp_avg: its values .*CUDA out of memory"):
                torch_adapter.load_optimizer(optimizer, state, "opt")

    def test_a_device_that_fails_is_not_taken_for_a_checkpoint_that_does_not_fit(self):
        class Own:
            def state_dict(self):
                return {"a": 1}

            def load_state_dict(self, state):
                raise ILLEGAL
        with self.attach(own=Own()) as job:
            job.save()
        with self.assertRaisesRegex(dlckpt.IoError, "^own: .*CUDA error: an illegal"):
            self.attach(own=Own())
        from dlckpt import torch_adapter
        for failure, kind in ((ILLEGAL, dlckpt.IoError), (RuntimeError("size mismatch"), dlckpt.MismatchError)):
            with mock.patch.object(nn.Module, "load_state_dict", side_effect=failure):
                with self.assertRaises(kind):
                    torch_adapter.load_module(nn.Linear(1, 1), {}, "model")


if __name__ == "__main__":
    support.main(needs=("numpy", "torch"))
