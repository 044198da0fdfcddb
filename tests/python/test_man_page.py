# SPDX-License-Identifier: Apache-2.0
"""The examples of dlckpt-python(3), run as the page writes them: begun, and begun again where they left off."""
import contextlib
import io
import logging
import os
import re
import warnings

import support

support.use_frameworks()
os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1", JAX_PLATFORMS="cpu")
PAGE = os.path.join(support.SOURCE, "man", "dlckpt-python.3.in")


def examples():
    """The programs of the page, one under the other, with fewer train steps."""
    with open(PAGE, encoding="utf-8") as file:
        section = file.read().split(".SH EXAMPLES\n")[1].split("\n.SH ")[0]
    found = []
    for block in re.findall(r"\n\.nf\n(.*?)\n\.fi", section, re.S):
        lines = [("" if line == ".PP" else line) for line in block.splitlines() if line not in (".RS", ".RE")]
        text = "\n".join(lines).replace("\\-", "-").replace("steps(10000)", "steps(60)").replace("max_steps=1000", "max_steps=6")
        found += [part for part in text.split("\n\n") if part.strip()]
    return found


class ManPage(support.Case):
    def setUp(self):
        super().setUp()
        warnings.simplefilter("ignore")
        for name in ("lightning.pytorch", "lightning.fabric"):
            logging.getLogger(name).setLevel(logging.ERROR)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)

    def run_example(self, marker, **names):
        """The one example that holds `marker`, with the names that a program would have."""
        import dlckpt
        chosen, = [text for text in examples() if marker in text]
        chosen = chosen.replace("/shared/pretrained", self.dir)
        names["dlckpt"] = dlckpt
        self.printed = io.StringIO()
        with contextlib.redirect_stdout(self.printed), contextlib.redirect_stderr(io.StringIO()):  # of the Trainers
            exec(compile(chosen, PAGE, "exec"), names)  # pylint: disable=exec-used
        return names

    def test_numpy_alone(self):
        import numpy

        def update(step):
            taken.append(step)
            return numpy.full(1000, 1.0)

        taken = []
        for _ in range(2):
            names = self.run_example("weights += update", numpy=numpy, update=update)
            self.assertEqual((names["weights"][0], taken), (60, list(range(60))))
            names["job"].close()

    def test_fine_tuning(self):
        import torch
        from torch import nn
        import dlckpt
        first, model = (nn.ModuleDict({"body": nn.Linear(3, 3), "head": nn.Linear(3, out)}) for out in (5, 7))
        with dlckpt.attach(model=first, dir=self.dir) as job:
            job.save()
        self.run_example("load_into", model=model)
        self.assertTrue(torch.equal(model["body"].weight, first["body"].weight))
        self.assertIn("head.weight", self.printed.getvalue())

    def test_jax(self):
        try:
            import jax.numpy as jnp
        except ImportError:
            self.skipTest("there is no jax")

        def update(params, state):
            return {"w": params["w"] + 1}, {"count": state["count"] + 1}

        for _ in range(2):
            names = self.run_example('job["params"]', params={"w": jnp.zeros(3)}, opt_state={"count": jnp.zeros(())}, update=update)
            self.assertEqual((float(names["job"]["params"]["w"][2]), float(names["job"]["opt"]["count"])), (60, 60))
            names["job"].close()

    def test_transformers(self):
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
        data = [{"input_ids": torch.arange(i, i + 8) % 31, "labels": torch.arange(i, i + 8) % 31} for i in range(16)]
        for _ in range(2):
            torch.manual_seed(1)
            model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=31, n_positions=8))
            args = TrainingArguments(output_dir="out", max_steps=6, per_device_train_batch_size=4, save_strategy="no", report_to=[],
                                     disable_tqdm=True, use_cpu=True, logging_strategy="no")
            names = self.run_example("huggingface", model=model, args=args, data=data, Trainer=Trainer)
            self.assertEqual(names["trainer"].state.global_step, 6)
        self.saying("resumed at train step 6")

    def test_lightning(self):
        import lightning
        import torch

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)

            def training_step(self, batch, _index):
                return self.layer(batch[0]).square().mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(24, 4)), batch_size=2)
        for _ in range(2):
            names = self.run_example("ckpt_path=", model=Model(), loader=loader, lightning=lightning)
            self.assertEqual(names["trainer"].global_step, 6)
        self.saying("resumed at train step 6")

    def test_distributed_checkpoint(self):
        import torch
        from torch.distributed import checkpoint as dcp
        import dlckpt
        state_dict = {"w": torch.arange(4.0)}
        self.run_example("dcp.", dcp=dcp, state_dict=state_dict)
        state_dict["w"].zero_()
        dcp.load(state_dict, storage_reader=dlckpt.dcp.Reader("ckpt"))
        self.assertEqual((state_dict["w"].tolist(), dlckpt.open("ckpt").step), ([0, 1, 2, 3], 1200))


if __name__ == "__main__":
    support.main(needs=("torch", "transformers", "lightning"))
