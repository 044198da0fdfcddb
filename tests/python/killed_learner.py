# SPDX-License-Identifier: Apache-2.0
"""What the learners of test_killed.py share. Usage of each: LEARNER.py DIR KILL_AT [SIGNAL [WORD...]]; at that train step it sends itself
the signal (SIGKILL if none is named), unless KILL_AT is -1. Before, it trains once without, in another directory."""
import hashlib
import os
import signal
import sys

import torch

_SIGNAL = signal.Signals[sys.argv[3]] if len(sys.argv) > 3 else signal.SIGKILL
WORDS = sys.argv[4:]


def signal_itself(step, kill_at):
    if step == kill_at:
        os.kill(os.getpid(), _SIGNAL)


def print_weights(values):
    digest = hashlib.sha256()
    for value in values:
        digest.update(value.detach().numpy().tobytes())
    print("weights", digest.hexdigest(), flush=True)


def run(train):
    """train(dir, kill_at)"""
    os.environ["DL_CHECKPOINT_MODE"] = "sync"  # which checkpoint is the newest must not depend on how busy the machine is
    torch.set_num_threads(1)
    if int(sys.argv[2]) >= 0:
        train(sys.argv[1] + "-whole", -1)
    train(sys.argv[1], int(sys.argv[2]))
