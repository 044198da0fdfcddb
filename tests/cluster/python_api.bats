#!/usr/bin/env bats
# The Python package dl on a real Slurm: functions become jobs, and what they return comes back.
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016  # names of folders
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

# Slurm forgets a job here two seconds after its end.
setup_file() { cluster_up --nodes 2 --gpus-per-node 2 --conf MinJobAge=2; }
teardown_file() { cluster_down; }
setup() {
  /usr/bin/python3 -c 'import cloudpickle' 2>/dev/null || skip "needs the package cloudpickle of /usr/bin/python3"
  cluster_setup
  export PYTHONPATH=$stage/share/slurm-dl/python
}
teardown() { cluster_teardown; }

# python [USER's words]: the program on stdin, run on the login host.
python() { cat >program.py && on_login "$@" timeout 120 /usr/bin/python3 program.py; }

@test "a function of a script runs in each learner; the first one's result comes back, or all of them; logs and status too" {
  echo 'factor = 2' >beside.py
  run --separate-stderr python <<'END'
import os, dl, beside
def train(x, plus=0):
    print("here is", os.environ["DL_RANK"], os.getcwd(), flush=True)
    return {"x": x * beside.factor + plus, "rank": int(os.environ["DL_RANK"])}
job = dl.submit(train, 20, kwargs={"plus": 2}, learners=2, gpus=1, time=5)
assert job.exception() is None
print(job.result(timeout=60), [each["rank"] for each in job.results()], job.done(), job.wait().state)
print(job.logs(), job.logs(learner=1), sep="---\n")
print(job.status()["reason"], os.path.basename(job.status()["dir"]) == "dl-" + job.id, dl.job(job.id) == job, dl.jobs() == [job])
END
  [ "$status" -eq 0 ]
  [ -z "$stderr" ]
  assert_contains "$output" "^\{'x': 42, 'rank': 0\} \[0, 1\] True COMPLETED"
  assert_contains "$output" "^\[1\] here is 1 $PWD$"
  assert_contains "$output" "^here is 1 $PWD$"
  assert_contains "$output" '^all learners finished True True True'
  [ "$(stat -c %a dl-calls dl-calls/train-* | sort -u)" = 700 ]
  [ "$(ls)" = $'beside.py\ndl-calls\nprogram.py' ] # nothing beside the call's own folder
}

@test "in a shell without a file, as a notebook is: closures, methods, classes of its own, and modules beside it" {
  echo 'factor = 2' >beside.py
  run --separate-stderr on_login env -C "$PWD" timeout 180 /usr/bin/python3 - <<'END'
import dataclasses, functools, pathlib, sys, dl, beside
assert sys.path[0] == ""
vars(sys.modules["__main__"]).pop("__file__", None)
@dataclasses.dataclass
class Outcome:
    loss: float
    @classmethod
    def made(cls, x): return cls(x)
    def better(self, by): return Outcome(self.loss - by)
def outer(x):
    def inner(y): return Outcome(x + y * beside.factor)
    return inner
def count(n): return 1 if n == 0 else n * count(n - 1)
calls = {outer(1): (2,), Outcome.made: (3,), Outcome(9).better: (4,), functools.partial(outer(0), 5): (), (lambda x: [x, Outcome]): (6,), count: (5,)}
jobs = [dl.submit(function, *args, time=5, checkpoint=pathlib.Path("ck") / str(i)) for i, (function, args) in enumerate(calls.items())]
values = [job.result(timeout=120) for job in jobs]
print(values[:4], values[4][0], values[4][1] is Outcome, values[5], all(isinstance(value, Outcome) for value in values[:4]))
END
  [ "$status" -eq 0 ] || { echo "$output$stderr"; return 1; }
  assert_contains "$output" '^\[Outcome\(loss=5\), Outcome\(loss=3\), Outcome\(loss=5\), Outcome\(loss=10\)\] 6 True 120 True$'
}

@test "what a function raises comes back with its traceback; what cannot be pickled says so and the job is not run again" {
  run --separate-stderr python <<'END'
import threading, dl
class OwnError(Exception): pass
def bad(text): raise OwnError(text)
def lock(): return threading.Lock()
def leave(): import os; os._exit(0)
try: dl.submit(bad, "no such luck", learners=2, time=5).result()
except dl.JobFailed as error: print(type(error.__cause__).__name__, "line" in error.traceback, error)
job = dl.submit(lock, time=5)
try: job.result()
except dl.ResultError as error: print(error)
print(job.state, job.status()["attempt"])
END
  [ "$status" -eq 0 ]
  assert_contains "$output" '^OwnError True job [0-9]+ failed: learner [01] exited with code 1'
  assert_contains "$output" 'OwnError: no such luck$'
  assert_contains "$output" '^job [0-9]+, learner 0: what the function returned \(type lock\) cannot be pickled: TypeError'
  assert_contains "$output" '^COMPLETED 1$'
}

@test "a job outlives the Python that submitted it, and what Slurm remembers" {
  run --separate-stderr python <<'END'
import os, dl
def join(*names):
    print("joined", flush=True)
    return os.path.join(*names)
# An interpreter of the folder from which it is submitted.
os.symlink("/usr/bin/python3", "own-python")
job, lost = dl.submit(join, "a", "b", python="./own-python", time=5), dl.submit(join, time=5, sbatch=["--hold"])
lost.cancel()
print(job.id, lost.id)
END
  [ "$status" -eq 0 ]
  read -r job lost <<<"$output"
  wait_for 40 "Slurm has forgotten jobs $job and $lost" eval "! on_login squeue -h -t all -o %i 2>/dev/null | grep -qxE '$job|$lost'"
  run --separate-stderr python <<END
import dl
job = dl.job("$job")
print(job.result(), job.state, job.function)
print(job.logs().strip())
lost = dl.job("$lost")
try: lost.result(timeout=5)
except dl.JobFailed as error: print(lost.state, error)
try: dl.job("99999")
except LookupError as error: print(error)
END
  [ "$status" -eq 0 ]
  assert_contains "$output" '^a/b COMPLETED join$'
  assert_contains "$output" '^joined$'
  assert_contains "$output" "^UNKNOWN job $lost failed: Slurm does not know it any more, and it left no result$"
  assert_contains "$output" "there is no call of job '99999' in $PWD/dl-calls"
}

@test "map_array: an element for each item, some at a time; one that fails fails alone" {
  run --separate-stderr python <<'END'
import time, dl
def one(item, power):
    if item == 3: raise ValueError("three")
    time.sleep(0.3)
    return item ** power
jobs = dl.map_array(one, range(6), [2] * 6, at_once=2, time=5)
done = {job.id: job.exception() or job.result() for job in dl.as_completed(jobs, timeout=100)}
print([done[job.id] if not isinstance(done[job.id], Exception) else type(done[job.id].__cause__).__name__ for job in jobs])
print([job.id.split("_")[1] for job in dl.jobs()], dl.job(jobs[4].id).result(), dl.map_array(one, [], []))
END
  [ "$status" -eq 0 ]
  assert_contains "$output" "^\[0, 1, 4, 'ValueError', 16, 25\]"
  assert_contains "$output" "^\['0', '1', '2', '3', '4', '5'\] 16 \[\]"
}

@test "a job is paused and resumed, and goes on from what it saved; one that waits is cancelled" {
  run --separate-stderr python <<'END'
import os, time, dl
def train(total):
    import numpy, dlckpt
    seen = numpy.zeros(1)
    job = dlckpt.attach(seen=seen)
    for step in job.steps(total):
        seen += 1
        time.sleep(0.05)
    return seen[0]
job = dl.submit(train, 150, checkpoint="ck", learners=2, time=5)
while not (job.status().get("step") or 0) > 20: time.sleep(0.2)
job.pause()
print(job.state, job.done())
try: job.wait(timeout=0.5)
except TimeoutError as error: print(error)
job.resume()
print(job.result(timeout=100), job.status()["attempt"])
other = dl.submit(time.sleep, 100, sbatch=["--hold"], time=5)
os.environ["SCANCEL_STATE"] = "RUNNING"  # the user's own, for scancel
other.cancel()
other.cancel()
try: other.result(timeout=30)
except dl.JobCancelled as error: print(error, other.state, other.status()["state"], other.done())
END
  [ "$status" -eq 0 ]
  assert_contains "$output" '^HALTED False'
  assert_contains "$output" '^job [0-9]+ has not ended after 0.5 s: it is HALTED'
  assert_contains "$output" '^150.0 2'
  assert_contains "$output" '^job [0-9]+ was cancelled, by its user or an operator CANCELLED FAILED True$'
  [ -d ck ]
}

@test "checkpoints: of each element of an array its own, and in a working directory with odd characters" {
  mkdir 'a,b %j "$x' && cd 'a,b %j "$x'
  run --separate-stderr python <<'END'
import json, os, dl
def where(*_): return os.environ["DL_CHECKPOINT_DIR"]
print(dl.submit(where, checkpoint="ck,keep=2", time=5).result() == os.path.join(os.getcwd(), "ck"))
try: dl.submit(where, checkpoint="ck-%j")
except dl.SubmitError as error: print(error)
os.mkdir("../50%"), os.chdir("../50%")
jobs = dl.map_array(where, range(2), checkpoint="ck-%a,keep=2", time=5)
print([job.result() == os.path.join(os.getcwd(), "ck-%d" % i) for i, job in enumerate(jobs)])
job = dl.submit(where, checkpoint="ck", metrics="events:tb/%j || x=%{INT:x}", time=5)
job.wait()
with open(os.path.join(job.folder, "dl-" + job.id, "plan.json")) as plan:
    print(json.load(plan)["metrics"] == ["events:" + os.getcwd() + "/tb/" + job.id, "x=%{INT:x}"])
END
  [ "$status" -eq 0 ]
  assert_contains "$output" '^True$'
  assert_contains "$output" "names of the job cannot stand in a relative path here"
  [[ $output == *$'\n[True, True]\nTrue' ]]
}

@test "within a job, as in a notebook that runs in one, a job of its own is submitted" {
  cat >program.py <<'END'
import os, dl
def where(): return os.environ["SLURM_JOB_ID"], os.environ["DL_WORLD_SIZE"]
job = dl.submit(where, learners=3, time=5)
print(job.result() == (job.id, "3"), job.id != os.environ["SLURM_JOB_ID"])
END
  run on_login srun -N1 --dl-learners=1 /usr/bin/python3 program.py
  [ "$status" -eq 0 ]
  assert_contains "$output" '^True True'
}

@test "what is wrong is told in a sentence before anything is submitted, and leaves nothing behind" {
  run --separate-stderr python <<'END'
import os, sys, threading, dl
def f(*_): pass
async def later(): pass
for call in (lambda: dl.submit(f, lr=3), lambda: dl.submit(f, gpus="many"), lambda: dl.submit(f, framework="nix"), lambda: dl.submit(3),
             lambda: dl.submit(f, sbatch="--hold"), lambda: dl.submit(f, sbatch=["--nonsense"]), lambda: dl.submit(f, learners=True),
             lambda: dl.submit(f, threading.Lock()), lambda: dl.map_array(f, range(2000)), lambda: dl.map_array(f, [1], at_once=0),
             lambda: dl.submit(f, partition="nowhere"), lambda: dl.map_array(f), lambda: dl.submit(later), lambda: dl.submit(f, sbatch=["--array=0-3"]),
             lambda: dl.submit(f, python="/nonexist"), lambda: dl.submit(f, python=os.getcwd())):
    try: print("submitted", call())
    except (TypeError, dl.SubmitError) as error: print(type(error).__name__, error)
try: dl.submit(f, image="images/none.sif", python="no/python")
except dl.SubmitError as error: print(error)
os.makedirs("taken"), open("taken/dl-calls", "w").close(), os.chdir("taken")
try: dl.submit(f)
except dl.SubmitError as error: print(error)
os.chdir("..")
# The disk is full as soon as the job is submitted.
import errno, dl.call
write = dl.call.write
def full(path, data):
    if path.endswith("call.json"): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    write(path, data)
dl.call.write = full
try: dl.submit(f, time=5)
except dl.SubmitError as error: print(error)
os.environ["PATH"] = "/nowhere"
try: dl.submit(f)
except dl.SubmitError as error: print(error)
print(os.listdir("dl-calls"))
END
  [ "$status" -eq 0 ]
  [[ $output != *submitted\ * ]]
  assert_contains "$output" "^TypeError dl.submit\(\) has no option 'lr'; it has account, .*keyword arguments of the function go into kwargs"
  assert_contains "$output" "^SubmitError --gpus: 'many'"
  assert_contains "$output" "^SubmitError --dl-framework: 'nix' is not a known framework; known: "
  assert_contains "$output" "^TypeError dl.submit\(\): 3 cannot be called"
  assert_contains "$output" "^TypeError dl.submit\(\): sbatch is the text '--hold'; it takes a list"
  assert_contains "$output" "^SubmitError unrecognized option '--nonsense'"
  assert_contains "$output" "^TypeError dl.submit\(\): learners is True; it takes a number or text"
  assert_contains "$output" "^SubmitError the arguments cannot be pickled, so no job can have it: TypeError"
  assert_contains "$output" "^SubmitError Batch job submission failed: Invalid job array specification$"
  assert_contains "$output" "^SubmitError at_once: 0 is less than 1"
  assert_contains "$output" "^SubmitError invalid partition specified: nowhere; "
  assert_contains "$output" "^SubmitError later is an async function or a generator, "
  assert_contains "$output" "^SubmitError sbatch=.*: a job array is made by dl.map_array"
  assert_contains "$output" "^SubmitError python='/nonexist': /nonexist is not there; it takes the path of an interpreter"
  assert_contains "$output" "^SubmitError python='.*': .* cannot be run; "
  assert_contains "$output" "^the call cannot be kept in .*/taken/dl-calls: File exists; submit from a folder that you can write to"
  assert_contains "$output" "^there is no Slurm here \(no sbatch in PATH\)"
  assert_contains "$output" "images/none.sif"
  assert_contains "$output" "^job [0-9]+ was submitted, and is cancelled again: .*/call.json cannot be written: No space left on device"
  assert_contains "$output" "^\[\]$"
  wait_for 20 'no job is left' eval '! on_login squeue -h -o %i | grep -q .'
}

@test "another user's results are not read, since reading them would run that user's code" {
  run python <<'END'
import os, dl
job = dl.submit(os.getpid, time=5)
job.wait()
os.chmod("dl-calls", 0o755), os.chmod(job.folder, 0o777), os.chmod(job.folder + "/0", 0o777)
for name in ("0/0.result", "call.json"):
    os.chmod(os.path.join(job.folder, name), 0o666)
    os.chown(os.path.join(job.folder, name), 65534, 65534)
    try: print("read", dl.Job(job.folder).result())
    except PermissionError as error: print(error)
END
  [ "$status" -eq 0 ]
  [[ $output != *read\ [0-9]* ]]
  assert_contains "$output" "0/0.result belongs to user 65534, and reading it would run that user's code; it is not read"
  assert_contains "$output" "call.json belongs to user 65534"
}
