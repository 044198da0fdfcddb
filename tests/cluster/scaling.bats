#!/usr/bin/env bats
# How a job scales, on a real Slurm with real PyTorch: dlrun measures 1, 2 and 4 learners in three jobs of one name, each of which starts
# with what the earlier ones have shown; dlctl tells it.
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() {
  cluster_up --nodes 4 --gpus-per-node 1
}
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  needs_torch
  cat >train.py <<'END_OF_PROGRAM'
import os, sys, time
import torch, torch.distributed as dist
import dlckpt
dist.init_process_group("gloo")
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
opt = torch.optim.SGD(model.parameters(), lr=0.01)
batches = dlckpt.GlobalBatches(1000, dlckpt.find_batch(8), seed=1)
job = dlckpt.attach(model=model, opt=opt, data=batches, dir=sys.argv[1])
job.noise_scale(24)
for step in job.steps(int(sys.argv[2])):
    index = next(batches)
    opt.zero_grad()
    time.sleep(0.02 * len(index))  # a sample takes 20 ms
    model(torch.randn(len(index), 64)).square().mean().backward()
    opt.step()
END_OF_PROGRAM
  printf '#!/bin/bash\nexport OMP_NUM_THREADS=1\nexec dlrun -- /usr/bin/python3 train.py "$@"\n' >train.sh
}
teardown() {
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || tail -n 40 train-*.out 2>/dev/null || true
  cluster_teardown
}

# trained LEARNERS NODES-LEFT-OUT: a job that has trained with so many learners.
trained() {
  local out
  out=(${2:+-x "$2"})
  submit --job-name=train --output="train-$1.out" --time=10 "${out[@]}" --dl-framework=pytorch --dl-learners=1:4 --dl-gpus=1 \
    --dl-batch=8:32:2 --dl-checkpoint="$PWD/ckpt-$1" train.sh "$PWD/ckpt-$1" 80
}
# was_measured JOB LEARNERS: whether dlrun has written what it measured.
was_measured() { grep -q "\"learners\":$2,\"nodes\":$2,\"batch\":$((8 * $2)),\"passes\":1,\"step_s\"" "dl-$1/scaling.json" 2>/dev/null; }
# field JSON-FILE LEARNERS NAME: of the point with so many learners.
field() {
  /usr/bin/python3 -c 'import json, sys
points = [p for p in json.load(open(sys.argv[1]))["points"] if p["learners"] == int(sys.argv[2])]
print(points[0][sys.argv[3]])' "$@"
}

@test "jobs of one name with 1, 2 and 4 learners: each is measured, what was not yet is predicted, and dlctl shows and draws it" {
  one=$(trained 1 'n[2-4]')
  wait_state "$one" COMPLETED 120
  on_login dlctl scaling "$one" --dir "$PWD/dl-$one" --json >one.json
  [ "$(field one.json 1 confidence)" = measured ]
  [ "$(field one.json 4 confidence)" = guessed ]

  two=$(trained 2 'n[3-4]')
  wait_state "$two" COMPLETED 120
  on_login dlctl scaling "$two" --dir "$PWD/dl-$two" --json >two.json
  [ "$(field two.json 1 confidence)" = measured ] # by the job before
  [ "$(field two.json 2 confidence)" = measured ]
  [ "$(field two.json 2 nodes)" = 2 ]
  [ "$(field two.json 4 confidence)" = fitted ]

  four=$(trained 4 '')
  wait_for 60 "job $four is measured" was_measured "$four" 4
  assert_contains "$(on_login dlctl status "$four")" 'scaling +4 learners: [0-9.]+ samples/s, [0-9.]+ times 1 learner \(measured\)'
  assert_contains "$(on_login dlctl why "$four")" "scaling: 4 learners: .*dlctl scaling $four"
  wait_state "$four" COMPLETED 120
  on_login dlctl scaling "$four" --dir "$PWD/dl-$four" --json >four.json
  for learners in 1 2 4; do
    [ "$(field four.json "$learners" confidence)" = measured ]
    echo "# $learners learners: $(field four.json "$learners" speed) samples/s (by two jobs: $(field two.json "$learners" speed), from $(field two.json "$learners" speed_low) to $(field two.json "$learners" speed_high))" >&3
  done
  # A sample takes 20 ms, whatever else the machine does.
  /usr/bin/python3 - <<'END_OF_CHECK'
import json
four = json.load(open("four.json"))
speed = {p["learners"]: p["speed"] for p in four["points"]}
assert 0 < speed[1] <= 51, speed
assert speed[1] < speed[2] < speed[4] <= 4 * 51, speed
assert {p["learners"]: p["now"] for p in four["points"]}[4]
assert four["noise"] == 24, four
assert [round(p["efficiency"], 3) for p in four["points"]] == [1, 0.8, 0.571], four
assert 0 < four["formula"]["per_sample_s"], four
END_OF_CHECK
  run on_login dlctl scaling "$four" --dir "$PWD/dl-$four"
  [ "$status" -eq 0 ]
  assert_contains "$output" 'LEARNERS +NODES +BATCH'
  on_login dlctl scaling "$four" --dir "$PWD/dl-$four" --svg "$PWD/four.svg"
  assert_contains "$(head -n 1 four.svg)" '<svg '
}

@test "a job of which nothing was measured: dlctl scaling says what is missing" {
  printf '#!/bin/bash\nexec dlrun -- true\n' >idle.sh
  job=$(submit --output=train-0.out --dl-framework=generic --dl-learners=1 idle.sh)
  wait_state "$job" COMPLETED 60
  run on_login dlctl scaling "$job" --dir "$PWD/dl-$job"
  [ "$status" -eq 1 ]
  assert_contains "$output" "job $job: no train steps were measured yet"
}
