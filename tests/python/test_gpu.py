# SPDX-License-Identifier: Apache-2.0
"""Arrays on a GPU: on a real one with PyTorch where there is one; and on a double of the CUDA driver, whose memory the host cannot
touch (tests/lib/cuda_double), through __cuda_array_interface__."""
import ctypes
import os

import support
import numpy as np

import dlckpt

DOUBLE = os.path.join(support.BUILD, "tests", "lib", "cuda_double", ".libs", "libcuda.so.1")
ON_DEVICE, MANAGED = 0, 1


class _Functions(ctypes.Structure):
    """The beginning of struct CudaDouble."""

    _fields_ = [("init", ctypes.CFUNCTYPE(None)),
                ("allocate", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int)),
                ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
                ("contents", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p))]


class GpuArray:
    """As CuPy's: memory on a device, a shape and an element type."""

    def __init__(self, functions, values, kind=ON_DEVICE, strides=None, writable=True):
        self.memory = functions.allocate(max(values.nbytes, 1), kind, 0)
        self.shape, self.dtype, self.strides, self.writable = values.shape, values.dtype, strides, writable
        seen = (ctypes.c_char * max(values.nbytes, 1)).from_address(functions.contents(self.memory))
        self.contents = np.frombuffer(seen, dtype=values.dtype, count=values.size).reshape(values.shape)
        self.contents[...] = values

    def get(self):
        return self.contents.copy()

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.memory, not self.writable), "strides": self.strides,
                "version": 3}


class OnTheDouble(support.Case):
    def setUp(self):
        super().setUp()
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("libdlckpt has loaded the driver of the GPU that is here")
        if not os.path.exists(DOUBLE):
            self.skipTest("the double of the CUDA driver is not built (make check)")
        library = ctypes.CDLL(DOUBLE, mode=ctypes.RTLD_GLOBAL)
        library.cuda_double.restype = ctypes.POINTER(_Functions)
        self.functions = library.cuda_double().contents
        self.functions.init()

    def array(self, values, **more):
        return GpuArray(self.functions, values, **more)

    def test_arrays_on_a_gpu_are_saved_and_restored_where_they_lie(self):
        values = {"a": np.random.RandomState(1).rand(300, 200), "b": np.arange(7, dtype="int16"), "c": np.zeros((0, 3))}
        kinds = {"a": ON_DEVICE, "b": MANAGED, "c": ON_DEVICE}
        with dlckpt.attach(arrays={k: self.array(v, kind=kinds[k]) for k, v in values.items()}, dir=self.dir) as job:
            job.save()
        blank = {k: self.array(np.zeros_like(v), kind=kinds[k]) for k, v in values.items()}
        with dlckpt.attach(arrays=blank, dir=self.dir) as job:
            self.assertTrue(job.restored)
        for name, array in blank.items():
            self.assertEqual(array.contents.tobytes(), values[name].tobytes(), name)

    def test_a_transposed_array_keeps_its_elements(self):
        values = np.arange(12.0).reshape(3, 4)
        across = self.array(values.T.copy().reshape(4, 3), strides=None)
        across.shape, across.strides = (3, 4), (8, 24)
        with dlckpt.attach(arrays={"a": across}, dir=self.dir) as job:
            job.save()
        blank = self.array(np.zeros((3, 4)))
        with dlckpt.attach(arrays={"a": blank}, dir=self.dir):
            pass
        self.assertEqual(blank.contents.tolist(), values.tolist())

    def test_what_may_not_be_written_to_or_has_foreign_elements_is_refused(self):
        for array in (self.array(np.zeros(3), writable=False), self.array(np.zeros(3, dtype=">f4"))):
            with self.assertRaises(dlckpt.StateError):
                with dlckpt.attach(arrays={"a": array}, dir=self.dir) as job:
                    job.save()

    def test_lazy_saves_hold_what_was_there_when_they_began(self):
        array = self.array(np.full(100000, 1.0))
        with dlckpt.attach(arrays={"a": array}, dir=self.dir, mode="lazy", final_save=False) as job:
            job.save(wait=False)
            array.contents[...] = 2  # no optimizer waits for the copy of this one
            job.wait()
        with dlckpt.attach(arrays={"a": array}, dir=self.dir, final_save=False):
            pass
        self.assertEqual(array.contents.sum(), 100000.0)


class OnAGpu(support.Case):
    def setUp(self):
        super().setUp()
        if not os.path.exists("/dev/nvidia0"):
            self.skipTest("there is no GPU here (/dev/nvidia0)")
        try:
            import torch
        except ImportError:
            self.skipTest("there is no PyTorch")
        if not torch.cuda.is_available():
            self.skipTest("this PyTorch cannot use the GPU")
        self.torch = torch

    def model(self, seed):
        self.torch.manual_seed(seed)
        model = self.torch.nn.Sequential(self.torch.nn.Linear(300, 1000), self.torch.nn.ReLU(), self.torch.nn.Linear(1000, 10)).cuda()
        return model, self.torch.optim.Adam(model.parameters(), lr=1e-3)

    def train(self, job, model, optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            model(self.torch.ones(64, 300, device="cuda")).square().mean().backward()
            optimizer.step()
            job.step_done()

    def test_a_model_on_the_gpu_comes_back_bit_for_bit_in_every_mode(self):
        from dlckpt import torch_adapter
        for mode in ("sync", "async", "lazy"):
            self.dir = os.path.join(self.folder, mode)
            model, optimizer = self.model(1)
            self.assertTrue(all(torch_adapter.is_reached(p.detach()) for p in model.parameters()))
            with dlckpt.attach(model=model, optimizer=optimizer, dir=self.dir, mode=mode, final_save=False) as job:
                self.train(job, model, optimizer)  # its kernels may be queued still when the save begins
                job.save(wait=False)
                kept = [p.detach().clone() for p in model.parameters()]
                self.train(job, model, optimizer)
                job.save()
                last = [p.detach().clone() for p in model.parameters()]
            self.assertFalse(all(self.torch.equal(a, b) for a, b in zip(kept, last)))
            other, other_optimizer = self.model(2)
            with dlckpt.attach(model=other, optimizer=other_optimizer, dir=self.dir, final_save=False) as job:
                self.assertTrue(job.restored)
                for a, b in zip(last, other.parameters()):
                    self.assertTrue(self.torch.equal(a, b), mode)

    def test_weights_in_channels_last_and_a_fused_optimizer_go_on_bit_for_bit(self):
        torch = self.torch

        def make(seed):
            torch.manual_seed(seed)
            model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 4, 1)).cuda()
            model = model.to(memory_format=torch.channels_last)
            return model, torch.optim.Adam(model.parameters(), lr=1e-2, fused=True)

        def train(model, optimizer):
            torch.backends.cudnn.deterministic = True
            images = torch.arange(4 * 3 * 8 * 8, device="cuda", dtype=torch.float32).sin().reshape(4, 3, 8, 8)
            for _ in range(3):
                optimizer.zero_grad()
                model(images.to(memory_format=torch.channels_last)).square().mean().backward()
                optimizer.step()
        model, optimizer = make(1)
        train(model, optimizer)
        with dlckpt.attach(model=model, optimizer=optimizer, dir=self.dir, final_save=False) as job:
            job.save()
        train(model, optimizer)
        other, other_optimizer = make(2)
        with dlckpt.attach(model=other, optimizer=other_optimizer, dir=self.dir, final_save=False):
            pass
        for parameter, slots in other_optimizer.state.items():
            self.assertEqual(slots["exp_avg"].stride(), parameter.stride())
        train(other, other_optimizer)
        for a, b in zip(model.parameters(), other.parameters()):
            self.assertTrue(self.torch.equal(a, b))

    def test_a_lazy_save_leaves_the_capture_of_a_cuda_graph_alone(self):
        torch = self.torch
        weights = torch.nn.Parameter(torch.rand(64 << 20, device="cuda"))  # 256 MiB: the save goes on while the graph is captured
        optimizer = torch.optim.SGD([weights], lr=0.1)
        values, results = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
        with dlckpt.attach(tree={"w": weights.detach()}, optimizer=optimizer, dir=self.dir, mode="lazy", final_save=False) as job:
            for step in range(3):
                job.train_step = step
                job.save(wait=False)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, capture_error_mode="global"):
                    for _ in range(200):
                        results.add_(values)
                job.wait()
                results.zero_()
                graph.replay()
                self.assertEqual(results[0].item(), 200.0)
            self.assertEqual(job.saves, 3)


if __name__ == "__main__":
    support.main(needs=("numpy",))
