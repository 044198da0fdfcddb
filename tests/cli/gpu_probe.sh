#!/usr/bin/env bash
# dl-gpu-probe answers with one line of JSON, with or without GPUs, where slurm-dl was built with CUDA.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
probe=$top_builddir/launcher/gpu/dl-gpu-probe
if [ ! -x "$probe" ]; then
  skip "the GPU probe answers in JSON" "slurm-dl was built without CUDA"
  finish
  exit 0
fi
answer=$("$probe" 2>&1)
check "the GPU probe answers in JSON" "$(jq -e '.cuda_runtime > 0 and (.gpus | type) == "array"' >/dev/null 2>&1 <<<"$answer" || echo "$answer")"
devices=$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l)
if [ "$devices" -eq 0 ]; then
  check "a node without GPUs has none, and a reason" "$(jq -e '.gpus == [] and (.why | length) > 0' >/dev/null <<<"$answer" || echo "$answer")"
else
  check "every GPU has a name and its memory" "$(jq -e '[.gpus[] | .memory_bytes > 0] | all' >/dev/null <<<"$answer" || echo "$answer")"
fi
finish
