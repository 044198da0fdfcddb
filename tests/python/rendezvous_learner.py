# SPDX-License-Identifier: Apache-2.0
"""A learner that talks to the store at MASTER_ADDR:MASTER_PORT with torch's own client, then trains nothing over gloo.
In its first attempt rank 0 ends it with kill -9. Prints one JSON line for each attempt."""
import datetime
import json
import os
import signal
import time

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ADDRESS, PORT = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
PATIENCE = datetime.timedelta(seconds=180)
SHORT = datetime.timedelta(milliseconds=200)


def client(master=False, port=PORT):
    return dist.TCPStore("127.0.0.1" if master else ADDRESS, port, None, master, PATIENCE)


def times_out(call):
    try:
        call()
        return False
    except Exception:  # of another type in each torch
        return True


def talk(store, spare):
    """Everything a client can ask, on an empty store; `spare` is another client of it. Returns what was answered."""
    said = []
    store.set("a", "1")
    said.append(store.get("a").decode())
    said.append([store.add("n", 5), store.add("n", -7), store.get("n").decode()])
    said.append([x.decode() for x in (store.compare_set("c", "x", "y"), store.compare_set("c", "", "y"),
                                      store.compare_set("c", "y", "z"), store.compare_set("c", "y", "w"))])
    store.set("empty", "")
    said.append(store.get("empty").decode())
    store.set("long", "v" * 3000000)
    said.append(len(store.get("long")))
    said.append(store.num_keys())
    said.append([store.delete_key("long"), store.delete_key("long"), store.num_keys()])
    store.wait(["a", "n"])
    said.append(times_out(lambda: spare.wait(["a", "never"], SHORT)))
    modern = hasattr(store, "multi_get")
    if modern:
        said.append(times_out(lambda: store.wait(["never"], SHORT)))
        store.set("after", "the wait")
        said.append(store.get("after").decode())
        store.append("a", "2")
        store.append("new", "3")
        store.multi_set(["m1", "m2"], ["x", ""])
        said.append([x.decode() for x in store.multi_get(["a", "new", "m1", "m2", "a"])])
        said.append([store.check(["a", "m2"]), store.check(["a", "never"])])
    if hasattr(store, "queue_push"):
        for value in ("q1", "q2"):
            store.queue_push("q", value)
        said.append([store.queue_len("q"), store.queue_pop("q").decode(), store.queue_pop("q").decode(),
                     store.queue_len("q")])
        said.append(times_out(lambda: store.queue_pop("q", False)))
    if hasattr(store, "list_keys"):
        said.append(sorted(store.list_keys()))
    if hasattr(store, "barrier"):
        said.append(times_out(lambda: store.barrier("gate", 2, SHORT)))
        store.barrier("gate", 2, PATIENCE)
        said.append(store.get("gate").decode())
    return said


def all_reduce():
    dist.init_process_group("gloo", timeout=PATIENCE)
    total = torch.tensor([float(RANK + 1)])
    dist.all_reduce(total)
    dist.barrier()
    return int(total.item())


attempt = int(os.environ["DL_ATTEMPT"])
result = {"rank": RANK, "attempt": attempt, "torch": torch.__version__, "agent_store": os.environ["TORCHELASTIC_USE_AGENT_STORE"]}
agent = result["agent_store"] == "True"
if agent and attempt == 1:
    if RANK == 0:
        result["ours"] = talk(client(), client())
        own = client(True, 0)
        result["torchs"] = talk(own, client(port=own.port))
        client().set("talked", "yes")
    client().wait(["talked"], PATIENCE)
elif agent:
    fresh = client()
    result["left_over"] = fresh.check(["talked"]) if hasattr(fresh, "check") else times_out(lambda: fresh.wait(["talked"], SHORT)) is False
    if hasattr(fresh, "multi_get"):
        # A script of its own making: rank 0 would be the master.
        mine = dist.TCPStore(ADDRESS, PORT, WORLD, RANK == 0, PATIENCE)
        result["own_store"] = mine.add("joined", 1) <= WORLD
result["sum"] = all_reduce()
print(json.dumps(result), flush=True)
if agent and attempt == 1:
    # All have printed before rank 0 ends them.
    dist.barrier()
    if RANK == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
dist.barrier()
dist.destroy_process_group()
