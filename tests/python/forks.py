# SPDX-License-Identifier: Apache-2.0
"""Starts learners by fork, from a process that has imported what takes them the longest: PyTorch takes seconds of CPU, a fork some
milliseconds. support.learners() runs it for the scripts that were named to support.preload(). Usage: forks.py SOCKET MODULE...

First it says on the socket that it is ready, or why it cannot serve. Then each message is the learner's script, arguments and environment,
with three descriptors: its standard output, its standard error, and one where its process id is written, and its status when it has ended.
When the socket is closed, what still runs is killed.

(multiprocessing's forkserver ends its processes by os._exit(), so that what learners registered with atexit would not be called, and it is
one process, so that all learners would have the same hashes of strings.)"""
import builtins
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import types


def serve(channel):
    """Does not return but in a learner, with the message that says what it is."""
    running = {}  # by a descriptor of the process: its id, and where its status is written
    while True:
        ready, _, _ = select.select([channel, *running], [], [])
        for descriptor in ready:
            if descriptor is not channel:
                pid, status = running.pop(descriptor)
                os.close(descriptor)
                say(status, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                os.close(status)
        if channel not in ready:
            continue
        message, passed, _, _ = socket.recv_fds(channel, 1 << 20, 3)
        if not message:
            for pid, _ in running.values():
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        out, error, status = passed
        pid = os.fork()
        if pid == 0:
            os.dup2(out, 1)
            os.dup2(error, 2)
            for descriptor in [*passed, *running, *(status for _, status in running.values())]:
                os.close(descriptor)
            channel.close()
            return json.loads(message)
        os.close(out)
        os.close(error)
        running[os.pidfd_open(pid)] = pid, status
        say(status, pid)


def say(descriptor, number):
    try:
        os.write(descriptor, b"%d\n" % number)
    except BrokenPipeError:
        pass  # nobody waits for it any more


def run(script, args, environment):
    """What the interpreter does with a script, in a process of which nothing but the modules is left over."""
    os.environ.clear()
    os.environ.update(environment)
    if "numpy.random" in sys.modules:  # random does so itself at a fork, and torch begins everywhere with the same seed
        sys.modules["numpy.random"].seed()
    sys.argv = [script, *args]
    sys.path[0] = os.path.dirname(script)
    main = types.ModuleType("__main__")
    main.__file__, main.__builtins__ = script, builtins
    sys.modules["__main__"] = main
    with open(script, encoding="utf-8") as file:
        code = compile(file.read(), script, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def preload(modules):
    """Why learners cannot be forked from here, or nothing."""
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # an older version has no such module; a learner that needs it says so
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return "%d threads run after the import of %s" % (threads, ", ".join(modules))
    gc.collect()
    gc.freeze()  # so that the learners' collections do not touch, and copy, what is here
    return ""


if __name__ == "__main__":
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.send((preload(sys.argv[2:]) or "ready").encode())
    learner = serve(sock)
    run(learner["script"], learner["args"], learner["environment"])
