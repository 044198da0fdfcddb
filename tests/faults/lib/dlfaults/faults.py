# SPDX-License-Identifier: Apache-2.0
"""The table of faults: how each is done and undone, and what is expected in each phase. To add one: a function that does it, a
row in FAULTS, a run with --record."""
from __future__ import annotations

import os
import signal
import subprocess
from typing import Callable, Dict, NamedTuple, Optional

from dlfaults import port_thief
from dlfaults.cell import JOB_LIMIT_S, Cell
from dlfaults.sandbox import read_text

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
NFT = "/usr/sbin/nft"
# A port of the user's choice, below those that the kernel gives away.
OWN_PORT = 29517


class Expect(NamedTuple):
    """way: undisturbed, restart (in the allocation), restart elsewhere (there, without the lost node), requeue or hold (then `dlctl resume`);
    the job then completes. cause: a regular expression for what is said of it, "" where nothing needs to be said."""
    way: str
    cause: str = ""


class Fault(NamedTuple):
    name: str
    text: str
    do: Callable[[Cell], None]
    expect: Dict[str, Expect]  # by phase; the key "" is for all others
    undo: Optional[Callable[[Cell], None]] = None
    undo_when: str = "ended"  # or: noticed, held, soon (two seconds later)
    options: str = ""  # of sbatch
    step_ms: int = 20
    nodes: int = 2
    learners: str = "2"  # of dlrun
    script: str = ""  # in the batch script, before dlrun
    limit_s: int = JOB_LIMIT_S  # from the fault until the job's end
    stays: bool = False  # rank 1 is not let go on
    impossible: Callable[[], str] = lambda: ""  # why it cannot be done here


def kill_learner(cell: Cell) -> None:
    os.kill(cell.learner_pid, signal.SIGKILL)


def kill_agent(cell: Cell) -> None:
    os.kill(cell.agent_pid, signal.SIGKILL)


def kill_dlrun(cell: Cell) -> None:
    os.kill(cell.dlrun_pid, signal.SIGKILL)


def kill_guard(cell: Cell) -> None:
    guard = int(read_text("/proc/%d/stat" % cell.dlrun_pid).rsplit(") ", 1)[1].split()[1])
    os.kill(guard, signal.SIGKILL)


def nothing(_cell: Cell) -> None:
    """Rank 1 stands still already."""


def leak(cell: Cell) -> None:
    cell.open_gate(1, "leak")


def cut(cell: Cell) -> None:
    cell.sandbox.cut(cell.node)


def heal(cell: Cell) -> None:
    cell.sandbox.heal(cell.node)


def reset_connection(cell: Cell) -> None:
    """That of the agent with dlrun, by the kernel of its node; the sandbox's hosts share the kernel, so ss does it there."""
    port = str(cell.control()["port"])
    done = subprocess.run(cell.sandbox.on_host(cell.node, ["ss", "-HKt", "dport", "=", port]), capture_output=True, text=True, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        raise RuntimeError("no connection was reset: " + done.stderr.strip())


def drop_tcp(cell: Cell) -> None:
    """What n2 and dlrun send one another over TCP, for two seconds; heartbeats pass."""
    port = str(cell.control()["port"])
    rules = ["add table inet faults"]
    for hook in ("input", "output"):
        rules.append("add chain inet faults %s { type filter hook %s priority 0; }" % (hook, hook))
        rules += ["add rule inet faults %s tcp %s %s drop" % (hook, way, port) for way in ("dport", "sport")]
    subprocess.run(cell.sandbox.on_host(cell.node, [NFT, "\n".join(rules)]), check=True)


def pass_tcp(cell: Cell) -> None:
    subprocess.run(cell.sandbox.on_host(cell.node, [NFT, "delete table inet faults"]), check=True)


def why_no_filter() -> str:
    return "" if os.path.exists(NFT) else "nft (package nftables) is not installed"


def kill_slurmd(cell: Cell) -> None:
    cell.sandbox.daemon("kill", "slurmd@" + cell.node)


def start_slurmd(cell: Cell) -> None:
    cell.sandbox.daemon("start", "slurmd@" + cell.node)


def power_off(cell: Cell) -> None:
    cell.sandbox.power_off(cell.node)


def power_off_batch_host(cell: Cell) -> None:
    cell.sandbox.power_off(cell.rank0_node)


def power_on_batch_host(cell: Cell) -> None:
    cell.sandbox.power_on(cell.rank0_node)


def power_on(cell: Cell) -> None:
    cell.sandbox.power_on(cell.node)


def stop_slurmctld(cell: Cell) -> None:
    cell.sandbox.daemon("stop", "slurmctld")


def start_slurmctld(cell: Cell) -> None:
    cell.sandbox.daemon("start", "slurmctld")


def filler(cell: Cell) -> str:
    return os.path.join(cell.sandbox.disk, "filler")


def fill(cell: Cell) -> None:
    with open(filler(cell), "wb", buffering=0) as file:
        size = 1 << 20
        while size > 0:
            try:
                if file.write(b"\0" * size) < size:
                    size //= 2
            except OSError:
                size //= 2


def make_room(cell: Cell) -> None:
    os.unlink(filler(cell))


def steal_port(cell: Cell) -> None:
    if cell.phase == "deploying":
        port_thief.take(cell, cell.rank0_node, OWN_PORT)
    else:
        port_thief.try_all(cell)


def give_port_back(cell: Cell) -> None:
    port_thief.give_back(cell)


def skew(cell: Cell) -> None:
    cell.write("clock", "+3600\n")


# The agent on the last node of the first two, and its learner, live by the clock of the file.
SKEW_SCRIPT = """
echo '+0' >"$FAULT_DIR/clock"
cat >"$FAULT_DIR/agent" <<'END'
#!/bin/sh
if [ "$SLURM_NODEID" = 1 ]; then
  export LD_PRELOAD=%s FAKETIME_TIMESTAMP_FILE=$FAULT_DIR/clock FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1
fi
exec "$REAL_AGENT"
END
chmod 755 "$FAULT_DIR/agent"
REAL_AGENT=$(dirname "$(command -v dlrun)")/../libexec/slurm-dl/dl-agent
export REAL_AGENT DL_AGENT="$FAULT_DIR/agent"
""" % FAKETIME


def why_no_skew() -> str:
    if os.path.exists(FAKETIME):
        return ""
    return "the time of day is one for all namespaces of a kernel, and libfaketime, which changes it for single processes, is not installed"


UNDISTURBED = Expect("undisturbed")
KILLED = Expect("restart", r"learner 1 on n\d was killed by signal 9 \(SIGKILL\)")
LOST = Expect("requeue", r"learner 1 on n\d was lost: node n\d does not answer")
TO_SPARE = Expect("restart elsewhere", r"node n\d does not answer .*; n\d is left out; 2 learners on n")
TO_FEWER = Expect("restart elsewhere", r"node n\d does not answer .*; n\d is left out; 1 learner on n")
TAKEN_UP = Expect("undisturbed", r"learner 1 on n\d: the connection to its agent was broken \(.*\) and taken up again")
FULL = Expect("hold", r"class storage-full \(S306, ours\)")

FAULTS = [
    Fault("learner-killed", "kill -9 of a learner", kill_learner, {"": KILLED}),
    Fault("learner-hangs", "a learner stands still (--dl-hang-timeout=1s)", nothing,
          {"": Expect("restart", r"learner 1 on n\d hangs: no progress for \d+ s"),
           # Both stand at the same train step, or before the first, and wait: nothing tells which of them waits for the other.
           "deploying": Expect("restart", r"learner \d on n\d hangs: no progress for \d+ s"),
           "training": Expect("restart", r"learner \d on n\d hangs: no progress for \d+ s"),
           "saving": Expect("restart", r"learner \d on n\d hangs: no progress for \d+ s")},
          options="--dl-hang-timeout=1s", step_ms=250, stays=True),
    Fault("learner-leaks", "a learner leaves two processes behind, one without a parent and an environment, and is killed (finishing: ends)",
          leak, {"": KILLED, "finishing": Expect("undisturbed", r"learner 1 left processes behind \(\d\), which were killed")}, stays=True),
    Fault("agent-killed", "kill -9 of the agent of a learner", kill_agent,
          {"": Expect("restart", r"learner 1 on n\d was lost: its agent \(dl-agent\) on n\d was killed")}),
    Fault("dlrun-killed", "kill -9 of dlrun", kill_dlrun,
          {"": Expect("restart", r"dlrun was killed by signal 9 \(SIGKILL\); another has taken its place")}),
    Fault("guard-killed", "kill -9 of dlrun's parent, with which dlrun ends", kill_guard,
          {"": Expect("requeue", r"dlrun and its guard were killed; put back by the agent on n\d")}),
    Fault("network-cut", "the cable of a node is pulled", cut, {"": LOST}, heal),
    Fault("network-cut-spare", "the same, in a job of three nodes, one of them spare", cut, {"": TO_SPARE}, heal, nodes=3),
    Fault("network-cut-elastic", "the same, in a job of one or two learners", cut, {"": TO_FEWER}, heal, learners="1:2"),
    Fault("tcp-reset", "the connection between dlrun and an agent is reset", reset_connection, {"": TAKEN_UP}, step_ms=250),
    Fault("tcp-dropped", "all that dlrun and a node send one another over TCP is lost for two seconds", drop_tcp, {"": UNDISTURBED}, pass_tcp, "soon",
          step_ms=250, impossible=why_no_filter),
    Fault("slurmd-killed", "kill -9 of a node's slurmd, started again after the job", kill_slurmd, {"": UNDISTURBED}, start_slurmd),
    Fault("node-off", "everything on a node ends at once, and its cable is dead", power_off, {"": LOST}, power_on),
    Fault("node-off-spare", "the same, in a job of three nodes, one of them spare", power_off, {"": TO_SPARE}, power_on, nodes=3),
    Fault("node-off-elastic", "the same, in a job of one or two learners", power_off, {"": TO_FEWER}, power_on, learners="1:2"),
    Fault("batch-host-off", "everything on the node of dlrun and rank 0 ends at once, and its cable is dead", power_off_batch_host,
          {"": Expect("requeue", r"dlrun or its node n\d was lost; put back by the agent on n\d"),
           # The last agent has done its work and asks for nothing: Slurm puts the job back, after SlurmdTimeout, to begin two minutes later.
           "finishing": Expect("requeue")}, power_on_batch_host, limit_s=240),
    Fault("slurmctld-restarted", "slurmctld stops, and is back two seconds later", stop_slurmctld, {"": UNDISTURBED},
          start_slurmctld, "soon", step_ms=250),
    Fault("storage-full", "the file system of job directory and checkpoints is full until the job is held", fill,
          {"": FULL, "finishing": UNDISTURBED}, make_room, "held"),
    Fault("port-stolen", "deploying: another program has the user's own MASTER_PORT; else another user's tries to take all that the job listens at",
          steal_port, {"": UNDISTURBED, "deploying": Expect("restart", r"Address already in use")}, give_port_back, "noticed",
          script='[ "$FAULT_PHASE" != deploying ] || export MASTER_PORT=%d\n' % OWN_PORT),
    Fault("clock-skewed", "the clock of a node's agent and learner is an hour ahead from then on", skew, {"": UNDISTURBED},
          script=SKEW_SCRIPT, impossible=why_no_skew),
]
FAULT_NAMES = [fault.name for fault in FAULTS]


def expectation(fault: Fault, phase: str) -> Expect:
    return fault.expect.get(phase, fault.expect[""])
