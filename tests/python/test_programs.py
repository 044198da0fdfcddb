# SPDX-License-Identifier: Apache-2.0
"""Programs as people write them, small: interrupted, resumed, and ended with the weights of one that was not."""
import os
import signal

import support
import numpy as np
import torch
from torch import nn

import dlckpt


def weights(model):
    return {name: tensor.tolist() for name, tensor in model.state_dict().items()}


class Dataset(torch.utils.data.Dataset):
    """Its items do not depend on random numbers."""

    def __len__(self):
        return 48

    def __getitem__(self, index):
        x = torch.linspace(-1, 1, 8) * (index + 1) / 48
        return x, x.sum().gt(0.1).long()


class Programs(support.Case):
    def classifier(self, dir, leave_at=-1, own_generator=True):
        """An ordinary loop over a DataLoader, with dropout: its loader is begun after attach()."""
        torch.manual_seed(5)
        np.random.seed(5)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 2))
        opt = torch.optim.Adam(model.parameters(), lr=0.01)
        shuffles = torch.Generator().manual_seed(1)
        batches = dlckpt.GlobalBatches(len(Dataset()), 6, seed=2)
        loader = torch.utils.data.DataLoader(Dataset(), batch_sampler=batches, generator=shuffles if own_generator else None)
        job = dlckpt.attach(model=model, opt=opt, batches=batches, shuffles=shuffles, dir=dir)
        torch.rand(3), np.random.rand(2)  # set-up
        noise = []
        for step, (x, y) in zip(job.steps(9), loader):
            if step == leave_at:
                job.save()
                job.close()
                return None
            opt.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            opt.step()
            noise.append((np.random.rand(), torch.rand(1, generator=shuffles).item()))
        return weights(model), noise

    def test_dropout_goes_on_bit_for_bit_though_a_dataloader_draws_random_numbers_after_attach(self):
        for own in (False, True):
            with self.subTest("the loader has a generator of its own: %s" % own):
                whole, noise = self.classifier(os.path.join(self.folder, "whole%d" % own), own_generator=own)
                dir = os.path.join(self.folder, "interrupted%d" % own)
                self.assertIsNone(self.classifier(dir, leave_at=4, own_generator=own))
                resumed, later = self.classifier(dir, own_generator=own)
                self.assertEqual(resumed, whole)
                self.assertEqual(later, noise[4:])

    def test_a_save_before_the_first_train_step_holds_the_random_states_of_the_checkpoint(self):
        whole, _ = self.classifier(os.path.join(self.folder, "whole"))
        self.classifier(self.dir, leave_at=4)
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 2))
        shuffles, batches = torch.Generator().manual_seed(1), dlckpt.GlobalBatches(len(Dataset()), 6, seed=2)
        copy = os.path.join(self.folder, "copy")
        with dlckpt.attach(model=model, opt=torch.optim.Adam(model.parameters(), lr=0.01), batches=batches, shuffles=shuffles,
                           dir=self.dir) as job:
            torch.rand(7), np.random.rand(3), torch.rand(2, generator=shuffles)
            job.save()  # of the same train step: nothing to do
            job.train_step = 3
            torch.manual_seed(0)
            expected = torch.rand(1).item()
            torch.manual_seed(0)
            job.save()  # a loop without steps(): what there is now
        os.rename(self.dir, copy)
        with dlckpt.attach(model=model, opt=torch.optim.Adam(model.parameters(), lr=0.01), batches=batches, shuffles=shuffles,
                           dir=copy):
            self.assertEqual(torch.rand(1).item(), expected)
        self.assertTrue(whole)

    def test_in_a_forked_child_a_job_is_refused_and_its_parent_goes_on(self):
        a = np.zeros(100000)
        job = dlckpt.attach(arrays={"a": a}, dir=self.dir, every="1step", rng=False)
        steps = job.steps(4)
        next(steps), next(steps)  # a save may be in flight
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            refused = 0
            for call in (job.save, job.check, lambda: next(steps), job.finish):
                try:
                    call()
                except dlckpt.InvalidError as error:
                    refused += "fork()" in str(error)
                except BaseException:
                    pass
            os._exit(0 if refused == 4 else 1 + refused)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(list(steps), [2, 3])
        self.assertEqual(job.restored, False)

    def test_accumulated_gradients_of_tied_weights_go_on_bit_for_bit_and_each_sample_is_trained_once(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.head = nn.Embedding(48, 8), nn.Linear(8, 48, bias=False)
                self.head.weight = self.embed.weight

            def forward(self, x):
                return self.head(nn.functional.dropout(self.embed(x), 0.3))

        def run(dir, leave_at=-1):
            torch.manual_seed(5)
            model = Tied()
            opt = torch.optim.Adam(model.parameters(), lr=0.01)
            batches = dlckpt.GlobalBatches(48, 4, seed=2, batches_per_step=3)
            loader = torch.utils.data.DataLoader(range(48), batch_sampler=batches)
            job = dlckpt.attach(model=model, opt=opt, batches=batches, dir=dir)
            draws, taken = iter(loader), []
            for step in job.steps(8):
                if step == leave_at:
                    job.save()
                    job.close()
                    break
                opt.zero_grad()
                for _ in range(3):
                    x = next(draws, None)
                    if x is None:  # the data epoch is over
                        draws = iter(loader)
                        x = next(draws)
                    taken += x.tolist()
                    (nn.functional.cross_entropy(model(x), x) / 3).backward()
                opt.step()
            return weights(model), taken, model.head.weight is model.embed.weight

        whole = run(os.path.join(self.folder, "whole"))
        first, resumed = run(self.dir, leave_at=5), run(self.dir)
        self.assertEqual((resumed[0], first[1] + resumed[1], resumed[2]), (whole[0], whole[1], True))
        for epoch in range(2):
            self.assertEqual(sorted(whole[1][epoch * 48:(epoch + 1) * 48]), list(range(48)))

    def test_a_loop_of_ones_own_with_check_goes_on_bit_for_bit(self):
        def run(dir, leave_at=-1):
            a = np.zeros(4)
            np.random.seed(3)
            job = dlckpt.attach(arrays={"a": a}, dir=dir)
            np.random.rand(5)  # set-up
            while job.train_step < 6:
                job.check()
                if job.train_step == leave_at:
                    job.save()
                    job.close()
                    return None
                a += np.random.rand(4)
                job.step_done()
            job.finish()
            return a.tolist()
        whole = run(os.path.join(self.folder, "whole"))
        run(self.dir, leave_at=2)
        self.assertEqual(run(self.dir), whole)


if __name__ == "__main__":
    support.main(needs=("numpy", "torch"))
