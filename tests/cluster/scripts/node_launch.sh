#!/bin/bash
# Runs once on each node.
export OMP_NUM_THREADS=1
DISTRIBUTED_ARGS="--nproc_per_node 2 --nnodes $SLURM_NNODES --node_rank $SLURM_NODEID --master_addr $MASTER_ADDR --master_port $MASTER_PORT"

# shellcheck disable=SC2086  # several words
python3 -m torch.distributed.run --redirects 1 --tee 1 $DISTRIBUTED_ARGS train.py "$@"
