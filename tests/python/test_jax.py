# SPDX-License-Identifier: Apache-2.0
"""Pytrees of JAX through attach(): interrupted and resumed, element types, arrays divided over four devices."""
import os
from typing import NamedTuple

import support

support.use_frameworks()
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"


class Momentum(NamedTuple):
    """An optimizer's state, as optax has them."""

    count: object
    velocity: object


class Jax(support.Case):
    def train(self, total, stop_at=None):
        """A small regression with momentum and dropout; returns what it ends with."""
        import jax
        import jax.numpy as jnp
        import dlckpt
        x = jnp.linspace(-1, 1, 32).reshape(16, 2)
        params = {"layer": [{"w": jnp.full((2, 3), 0.1), "b": jnp.zeros(3)}, {"w": jnp.full((3, 1), 0.2, dtype=jnp.bfloat16)}]}
        opt = Momentum(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params))

        @jax.jit
        def update(params, opt, key):
            key, now = jax.random.split(key)

            def loss(p):
                hidden = jnp.tanh(x @ p["layer"][0]["w"] + p["layer"][0]["b"]) * jax.random.bernoulli(now, 0.8, (16, 3))
                return ((hidden @ p["layer"][1]["w"].astype(jnp.float32) - x.sum(1, keepdims=True)) ** 2).mean()

            velocity = jax.tree.map(lambda v, g: 0.9 * v + g, opt.velocity, jax.grad(loss)(params))
            params = jax.tree.map(lambda p, v: (p - 0.1 * v).astype(p.dtype), params, velocity)
            return params, Momentum(opt.count + 1, velocity), key

        job = dlckpt.attach(params=params, opt=opt, key={"k": jax.random.key(7)}, dir=self.dir)
        for step in job.steps(total):
            if step == stop_at:
                job.save()
                job.close()
                return None
            job["params"], job["opt"], key = update(job["params"], job["opt"], job["key"]["k"])
            job["key"] = {"k": key}
        self.assertIsInstance(job["opt"], Momentum)
        return [leaf.tobytes() for leaf in map(jax.device_get, jax.tree.leaves((job["params"], job["opt"])))], int(job["opt"].count)

    def test_a_training_interrupted_and_resumed_ends_with_the_same_bits(self):
        self.dir += "-whole"
        whole = self.train(9)
        self.dir += "-2"
        self.assertIsNone(self.train(9, stop_at=5))
        self.assertEqual(self.train(9), whole)
        self.assertEqual(whole[1], 9)
        self.saying("resumed at train step 5")

    def test_every_element_type_scalars_empty_arrays_and_arrays_divided_over_devices_come_back(self):
        import jax
        import jax.numpy as jnp
        import numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
        import dlckpt
        mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))
        kept = {name: jnp.arange(6).reshape(2, 3).astype(name) for name in (
            "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int32", "int8", "uint16", "bool", "complex64")}
        kept["scalar"], kept["empty"] = jnp.float32(2.5), jnp.zeros((0, 4))
        for name, spec in (("both", PartitionSpec("a", "b")), ("rows", PartitionSpec("a")), ("copies", PartitionSpec())):
            kept[name] = jax.device_put(jnp.arange(32.0).reshape(8, 4), NamedSharding(mesh, spec))
        with dlckpt.attach(tree=kept, dir=self.dir) as job:
            job.save()
        blank = jax.tree.map(lambda leaf: jax.device_put(jnp.zeros_like(leaf), leaf.sharding), kept)
        with dlckpt.attach(tree=blank, dir=self.dir) as job:
            got = job["tree"]
        for name, leaf in kept.items():
            self.assertEqual((got[name].dtype, got[name].sharding), (leaf.dtype, leaf.sharding), name)
            self.assertEqual(np.asarray(got[name]).tobytes(), np.asarray(leaf).tobytes(), name)

    def test_a_tree_that_does_not_fit_is_refused_by_name(self):
        import jax.numpy as jnp
        import dlckpt
        with dlckpt.attach(tree={"a": [jnp.zeros(3)]}, dir=self.dir) as job:
            job.save()
            with self.assertRaisesRegex(dlckpt.InvalidError, "no object named 'other'"):
                job["other"]
        for other, said in (({"a": [jnp.zeros(4)]}, "a/0 "), ({"a": [jnp.zeros(3)], "b": jnp.zeros(1)}, "lacks b")):
            with self.assertRaisesRegex(dlckpt.MismatchError, said):
                dlckpt.attach(tree=other, dir=self.dir)
        with self.assertRaisesRegex(dlckpt.StateError, "tree/f: a leaf of type"):
            dlckpt.attach(tree={"x": jnp.zeros(1), "f": "text"}, dir=self.dir + "-2")


if __name__ == "__main__":
    support.main(needs=("jax",))
