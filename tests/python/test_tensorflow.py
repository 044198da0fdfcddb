# SPDX-License-Identifier: Apache-2.0
"""tf.Variable, Keras models and optimizers through attach(): interrupted and resumed, element types."""
import os

import support

support.use_frameworks()
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0", KERAS_BACKEND="tensorflow")


def state_of(model, optimizer):
    return [v.numpy().tobytes() for v in model.variables + optimizer.variables]


class TensorFlow(support.Case):
    def train(self, total, stop_at=None, build=True):
        import keras
        import numpy as np
        import tensorflow as tf
        import dlckpt
        keras.backend.clear_session()  # its variables are numbered from the start, as in a new process
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.BatchNormalization(),
                                  keras.layers.Dropout(0.3, seed=5), keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.05, 20))
        if build:
            optimizer.build(model.trainable_variables)
        data = np.random.RandomState(1).rand(40, 4).astype("float32")
        batches = dlckpt.GlobalBatches(len(data), 8, seed=2, rank=0, world_size=1)
        job = dlckpt.attach(model=model, opt=optimizer, data=batches, dir=self.dir)
        for step in job.steps(total):
            if step == stop_at:
                job.save()
                job.close()
                return None
            x = data[next(batches)]
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x, training=True) - x.sum(1, keepdims=True)) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return state_of(model, optimizer)

    def test_a_keras_training_interrupted_and_resumed_ends_with_the_same_bits(self):
        import dlckpt
        self.dir += "-whole"
        whole = self.train(9)
        self.dir += "-2"
        self.assertIsNone(self.train(9, stop_at=5))
        with self.assertRaisesRegex(dlckpt.MismatchError, "not built yet"):
            self.train(9, build=False)
        self.assertEqual(self.train(9), whole)
        self.saying("resumed at train step 5")

    def test_variables_of_every_element_type_come_back_in_place(self):
        import tensorflow as tf
        import dlckpt
        names = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint16", "uint8", "bool", "complex64")
        kept = {name: tf.Variable(tf.cast([[0, 1, 2], [3, 4, 5]], name)) for name in names}
        kept["scalar"], kept["empty"] = tf.Variable(2.5), tf.Variable(tf.zeros((0, 3)))
        generator = tf.random.Generator.from_seed(4)
        with dlckpt.attach(v=kept, several=[tf.Variable(1.0), tf.Variable(2.0)], random=generator.state, dir=self.dir) as job:
            job.save()
        drawn = generator.normal((3,)).numpy().tolist()
        blank = {name: tf.Variable(tf.zeros_like(v)) for name, v in kept.items()}
        several = [tf.Variable(0.0), tf.Variable(0.0)]
        with dlckpt.attach(v=blank, several=several, random=generator.state, dir=self.dir) as job:
            self.assertIs(job["v"], blank)
        for name, v in kept.items():
            self.assertEqual(blank[name].numpy().tobytes(), v.numpy().tobytes(), name)
        self.assertEqual([v.numpy() for v in several], [1.0, 2.0])
        self.assertEqual(generator.normal((3,)).numpy().tolist(), drawn)

    def test_what_cannot_be_stored_or_replaced_is_refused(self):
        import tensorflow as tf
        import dlckpt
        with self.assertRaisesRegex(dlckpt.StateError, "a variable of text"):
            dlckpt.attach(v=tf.Variable("text"), dir=self.dir)
        with dlckpt.attach(v=tf.Variable(1.0), dir=self.dir) as job:
            with self.assertRaisesRegex(dlckpt.InvalidError, "in place"):
                job["v"] = tf.Variable(2.0)


if __name__ == "__main__":
    support.main(needs=("tensorflow",))
