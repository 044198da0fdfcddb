#!/usr/bin/env bats
# The catalogue's frameworks under dlrun, without Slurm: the examples with the real frameworks, all families at once, ports
# that are held, the network interface.
# shellcheck disable=SC2016  # much here is expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() {
  local folder
  folder=$("$top_srcdir/packaging/install-frameworks" --path)
  export python=$folder/bin/python why_not=
  [ -e "$folder/complete" ] || why_not="there are no current frameworks in $folder (packaging/install-frameworks)"
  [ -e "$top_builddir/checkpoint/.libs/libdlckpt.so.1" ] || why_not="built without HDF5"
}
setup() {
  dlrun_setup
  # Every family there is, for one entry.
  cat >cat/all.toml <<'TOML'
families = ["torch", "jax", "jax_ids", "tensorflow", "peers", "mpi", "slurm", "network", "threads", "ffdl"]
TOML
  export DLCKPT_LIBRARY=$top_builddir/checkpoint/.libs/libdlckpt.so.1 CUDA_VISIBLE_DEVICES='' JAX_PLATFORMS=cpu
  export TF_ENABLE_ONEDNN_OPTS=0 PYTHONDONTWRITEBYTECODE=1
}
needs_frameworks() { [ -z "$why_not" ] || skip "$why_not"; }
# learned TEXT: the held-out accuracy that was printed is above 93 %.
learned() { awk '/held-out accuracy/ { for (i = 1; i < NF; i++) if ($(i + 1) == "%") good = $i > 93 } END { exit !good }' <<<"$1" || { echo "$1" >&2; return 1; }; }
# resumes NAME UNIT: two learners train 150 train steps, one goes on to 300 from their checkpoint.
resumes() {
  needs_frameworks
  local example=$top_srcdir/frameworks/$1/example/train_digits.py
  run "$dlrun" -f "$1" -n 2 -c ck -- "$python" "$example" --steps 150
  [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
  contains "$output" "held-out accuracy: .* 2 $2"
  run "$dlrun" -f "$1" -c ck -- "$python" "$example"
  [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
  contains "$output" 'resumed at train step 150 .*saved by 2 learners, now 1'
  contains "$output" "held-out accuracy: .* 1 $2"
  learned "$output"
}

@test "JAX: initialize() needs no arguments; two processes train, one goes on from their checkpoint" { resumes jax devices; }

@test "TensorFlow: two workers of MultiWorkerMirroredStrategy train, one goes on from their checkpoint" { resumes tensorflow workers; }

@test "frameworks that name packages of their own: two learners train the example, one goes on from their checkpoint" {
  needs_frameworks
  local packages name example
  for packages in "$top_srcdir"/frameworks/*/packages.python; do
    name=$(basename "$(dirname "$packages")")
    example=$top_srcdir/frameworks/$name/example/train_digits.py
    run "$dlrun" -f "$name" -n 2 -c "ck-$name" --job-dir "$name" -- "$python" "$example" --steps 40
    [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
    contains "$output" 'held-out accuracy: .* with 2 '
    run "$dlrun" -f "$name" -c "ck-$name" --job-dir "$name-1" -- "$python" "$example" --steps 150
    [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
    contains "$output" 'held-out accuracy: .* with 1 '
    learned "$output"
  done
}

@test "TensorFlow: ParameterServerStrategy trains with one server, and goes on from the chief's checkpoint with one worker less" {
  needs_frameworks
  local example=$top_srcdir/frameworks/tensorflow/example/train_digits_servers.py
  run "$dlrun" -f tensorflow -n 3 --servers 1 -c ck -- "$python" "$example" --steps 60
  [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
  contains "$output" '^\[2\] worker 1 serves'
  contains "$output" '^\[3\] ps 0 serves'
  contains "$output" 'held-out accuracy: .* with 2 workers'
  run "$dlrun" -f tensorflow -n 2 --servers 2 -c ck -- "$python" "$example" --steps 150
  [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
  contains "$output" 'resumed at train step 60'
  contains "$output" 'held-out accuracy: .* with 1 workers'
  learned "$output"
}

@test "PyTorch: FSDP, Lightning and the Trainer of Transformers run on two learners as they were written for torchrun" {
  needs_frameworks
  for kind in fsdp lightning trainer; do
    run "$dlrun" -f pytorch -n 2 -- "$python" "$top_srcdir/tests/cli/torch_learner.py" "$kind"
    [ "$status" -eq 0 ] || { echo "$kind: $output" >&2; return 1; }
    learned "$output"
    if [ "$kind" = fsdp ]; then
      contains "$output" '^\[1\] holds 3605 of 7210;'
    else
      contains "$output" '^\[1\] rank 1 of 2;'
    fi
  done
}

@test "mpi4py: the ranks that MPI sees are those of the environment" {
  command -v mpirun >/dev/null && /usr/bin/python3 -c 'import mpi4py' 2>/dev/null || skip "/usr/bin/python3 has no mpi4py, or there is no mpirun"
  run "$dlrun" -f mpi -n 3 -- /usr/bin/python3 -c '
import os
from mpi4py import MPI
comm = MPI.COMM_WORLD
assert comm.rank == int(os.environ["DL_RANK"]) and comm.size == int(os.environ["DL_WORLD_SIZE"])
print("sum", comm.allreduce(comm.rank + 1))'
  [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
  contains "$output" '^\[2\] sum 6$'
}

@test "an active virtual environment is inherited; a version's activation enters one, or a prefix as conda's" {
  /usr/bin/python3 -m venv --without-pip v 2>/dev/null || skip "/usr/bin/python3 has no venv"
  mkdir -p c/bin && ln -s /usr/bin/python3 c/bin/python3 && printf '#!/bin/sh\necho tool of the prefix\n' >c/bin/tool && chmod +x c/bin/tool
  (
    # shellcheck disable=SC1091
    . v/bin/activate
    run "$dlrun" -n 2 -- python3 -c 'import os, sys; print(sys.prefix, os.environ["VIRTUAL_ENV"])'
    contains "$output" "^\[1\] $PWD/v $PWD/v$"
    CONDA_PREFIX=$PWD/c PATH=$PWD/c/bin:$PATH run "$dlrun" -n 2 -- sh -c 'tool; echo "$CONDA_PREFIX"'
    contains "$output" '^\[1\] tool of the prefix$'
    contains "$output" "^\[1\] $PWD/c$"
  )
  cat >cat/mine.toml <<TOML
families = ["torch"]
default_version = "venv"
[[versions]]
version = "venv"
activate = ". $PWD/v/bin/activate"
[[versions]]
version = "prefix"
hidden = true
activate = "export CONDA_PREFIX=$PWD/c PATH=$PWD/c/bin:\$PATH"
[[versions]]
version = "gone"
activate = ". $PWD/gone/bin/activate"
TOML
  run "$dlrun" -f mine -- python3 -c 'import sys; print(sys.prefix)'
  contains "$output" "^$PWD/v$"
  run "$dlrun" -f mine:prefix -- tool
  contains "$output" '^tool of the prefix$'
  run "$dlrun" -f mine:gone -- true
  [ "$status" -ne 0 ]
  contains "$output" 'gone/bin/activate'
  run "$dlrun" -f mine:none -- true
  [ "$status" -eq 2 ]
  contains "$output" "mine has no version 'none'; known: venv, gone$"
}

@test "all families at once do no harm: PyTorch, JAX and TensorFlow each add over two learners" {
  needs_frameworks
  cat >torch_sum.py <<'PY'
import torch, torch.distributed as d
d.init_process_group("gloo")
t = torch.ones(1) * (d.get_rank() + 1)
d.all_reduce(t)
print("sum", int(t.item()))
d.destroy_process_group()
PY
  cat >jax_sum.py <<'PY'
import jax
from jax.experimental import multihost_utils
jax.distributed.initialize()
print("sum", int(multihost_utils.process_allgather(jax.numpy.float32(jax.process_index() + 1)).sum()))
PY
  cat >tf_sum.py <<'PY'
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = strategy.cluster_resolver.task_id
one = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(float(rank + 1))))
print("sum", int(one.numpy()))
PY
  for name in torch jax tf; do
    run "$dlrun" -f all -n 2 -- "$python" "$name"_sum.py
    [ "$status" -eq 0 ] || { echo "$name: $output" >&2; return 1; }
    contains "$output" '^\[0\] sum 3'
    contains "$output" '^\[1\] sum 3'
  done
}

@test "the interface that leads to the other learners is named; what the user set stays" {
  run "$dlrun" -n 2 -- sh -c 'echo "$GLOO_SOCKET_IFNAME $NCCL_SOCKET_IFNAME $NCCL_RAS_ADDR"'
  [ "$status" -eq 0 ]
  contains "$output" '^\[1\] lo =lo localhost:[0-9]+$'
  GLOO_SOCKET_IFNAME=eth7 run "$dlrun" -n 2 -- sh -c 'echo "$GLOO_SOCKET_IFNAME"'
  contains "$output" '^\[1\] eth7$'
}

@test "held ports: each learner listens on its own, the others find it, and nobody else was given it" {
  printf 'families = ["peers"]\nports = 3\n' >cat/three.toml
  cat >meet.py <<'PY'
import os, socket
rank, peers = int(os.environ["DL_RANK"]), [p.rsplit(":", 1) for p in os.environ["DL_PEERS"].split(",")]
own = os.environ["DL_PORTS"].split(",")
assert len(own) == 3 and own[0] == peers[rank][1], (own, peers)
listener = socket.create_server(("", int(own[0])))
free = []
for _ in range(2000):  # any free port: never one that is held
    other = socket.socket()
    other.bind(("", 0))
    free.append(other)
assert not {str(s.getsockname()[1]) for s in free} & ({p for _, p in peers} | set(own))
nxt = peers[(rank + 1) % len(peers)]
for _ in range(600):
    try:
        out = socket.create_connection((nxt[0], int(nxt[1])))
        break
    except ConnectionRefusedError:
        __import__("time").sleep(0.05)
out.sendall(b"from %d" % rank)
out.close()
print("got", listener.accept()[0].recv(20).decode())
PY
  run "$dlrun" -f three -n 3 -- python3 meet.py
  [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
  contains "$output" '^\[0\] got from 2'
  contains "$output" '^\[2\] got from 1'
}

@test "plain C++ learners find one another by DL_PEERS, and end with what a single one computes" {
  /usr/bin/python3 -c 'import sklearn' 2>/dev/null || skip "/usr/bin/python3 has no scikit-learn"
  c++ -std=c++17 -O1 -Wall -Wextra -Werror "$top_srcdir/frameworks/cpp/example/train_digits.cpp" -o train_digits
  /usr/bin/python3 -c 'from sklearn.datasets import load_digits
for image, digit in zip(*load_digits(return_X_y=True)): print(digit, *map(int, image))' >digits.txt
  alone=$(./train_digits digits.txt 200)
  learned "$alone"
  run "$dlrun" -f cpp -n 3 -- ./train_digits digits.txt 200
  [ "$status" -eq 0 ]
  [ "$(sed -n 's/^\[0\] //p' <<<"$output")" = "${alone/1 learners/3 learners}" ]
}

@test "learners of one process share the candidates of a search" {
  /usr/bin/python3 -c 'import sklearn' 2>/dev/null || skip "/usr/bin/python3 has no scikit-learn"
  run "$dlrun" -f sklearn -n 2 --job-dir job -- /usr/bin/python3 "$top_srcdir/frameworks/sklearn/example/search_digits.py"
  [ "$status" -eq 0 ]
  contains "$output" '^\[0\] learner 1 of 2 tried 5 of 9 candidates; best: .*accuracy 9[0-9.]+ %'
  contains "$output" '^\[1\] learner 2 of 2 tried 4 of 9 candidates'
  [ "$(jq -s 'add | length' job/results/learner-?.json)" -eq 9 ]
}

@test "the plan says which families, and what only the run can know" {
  run "$dlrun" --dry-run -n 2 -f tensorflow -- true
  contains "$output" '^ +TF_CONFIG=\(the addresses of all learners'
  run "$dlrun" --dry-run -n 2 -f jax -- true
  contains "$output" '^ +JAX_COORDINATOR_ADDRESS=\(the address of rank 0'
  JAX_COORDINATOR_ADDRESS=far:1 run "$dlrun" --dry-run -n 2 -f jax -- true
  contains "$output" '^ +JAX_COORDINATOR_ADDRESS=far:1$'
}
