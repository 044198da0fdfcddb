# SPDX-License-Identifier: Apache-2.0
"""THE table of launchers and their options. To add a launcher: a row in HEADS or MODULES, and its options in LAUNCHERS.

An option is named without its dashes, and with - instead of _. Its value in the table:
    ""             a flag
    "value"        takes a value that dlrun does not need: addresses, ports, ranks, bindings
    "noted"        the same, but users may miss it, so a note tells that it is left out
    "two"          takes two words
    another word   takes a value with this meaning; "flag:WORD": a flag with this meaning; "env:NAME": sets this variable of
                   the program
"""
from typing import Dict, NamedTuple


class Launcher(NamedTuple):
    options: Dict[str, str]
    framework: str           # as --dl-framework names it; empty: found in another way
    script: bool             # a Python script follows, not a program


def _options(values: str, flags: str, **meaning: str) -> Dict[str, str]:
    table = {name: "value" for name in values.split()}
    table.update({name: "" for name in flags.split()})
    table.update({name.replace("_", "-"): what for name, what in meaning.items()})
    return table


TORCH = _options(
    "rdzv-backend rdzv-id rdzv-conf monitor-interval start-method role log-dir redirects r tee t local-ranks-filter "
    "master-addr master-port local-addr logs-specs numa-binding event-log-handler signals-to-handle",
    "standalone run-path virtual-local-rank", nnodes="nodes", rdzv_endpoint="endpoint", node_rank="node_rank", nproc_per_node="each", max_restarts="restarts", module="flag:module", m="flag:module",
    no_python="flag:program", use_env="flag:use_env", use_environment="flag:use_env")

ACCELERATE = _options(
    "main-process-ip main-process-port deepspeed-multinode-launcher deepspeed-hostfile deepspeed-exclusion-filter "
    "deepspeed-inclusion-filter rdzv-backend rdzv-conf monitor-interval role log-dir tee main-training-function tpu-name dynamo-mode local-ranks-filter",
    "same-network debug quiet q enable-cpu-affinity tpu use-xpu ipex mps downcast-bf16",
    multi_gpu="flag:spread", num_machines="nodes", machine_rank="node_rank", num_processes="total", config_file="config", gpu_ids="gpu_list", max_restarts="restarts", module="flag:module",
    m="flag:module", no_python="flag:program", mixed_precision="env:ACCELERATE_MIXED_PRECISION", cpu="flag:env:ACCELERATE_USE_CPU",
    num_cpu_threads_per_process="env:OMP_NUM_THREADS", dynamo_backend="env:ACCELERATE_DYNAMO_BACKEND",
    gradient_accumulation_steps="env:ACCELERATE_GRADIENT_ACCUMULATION_STEPS", gradient_clipping="env:ACCELERATE_GRADIENT_CLIPPING",
    use_deepspeed="flag:env:ACCELERATE_USE_DEEPSPEED", deepspeed_config_file="env:ACCELERATE_DEEPSPEED_CONFIG_FILE",
    zero_stage="env:ACCELERATE_DEEPSPEED_ZERO_STAGE", offload_optimizer_device="env:ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE",
    offload_param_device="env:ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", zero3_init_flag="env:ACCELERATE_DEEPSPEED_ZERO3_INIT",
    zero3_save_16bit_model="env:ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", use_fsdp="flag:env:ACCELERATE_USE_FSDP",
    use_megatron_lm="flag:env:ACCELERATE_USE_MEGATRON_LM",
    **{f"fsdp_{name}": f"env:FSDP_{name.upper()}" for name in (
        "sharding_strategy offload_params min_num_params auto_wrap_policy transformer_layer_cls_to_wrap backward_prefetch state_dict_type "
        "forward_prefetch use_orig_params cpu_ram_efficient_loading sync_module_states activation_checkpointing version reshard_after_forward").split()})

DEEPSPEED = _options(
    "hostfile H exclude e master-addr master-port launcher launcher-args ssh-port bind-core-list save-pid min-elastic-nodes "
    "max-elastic-nodes enable-each-rank-log autotuning venv-script",
    "no-ssh no-ssh-check force-multi bind-cores-to-rank elastic-training", node_rank="node_rank", num_nodes="nodes", num_gpus="each", num_accelerators="each",
    include="include", i="include", module="flag:module", m="flag:module", no_python="flag:program", no_local_rank="flag:use_env")

SRUN = _options(
    "jobid job-id mpi wait W mem-per-cpu "
    "mem-per-gpu cpus-per-gpu hint ntasks-per-core ntasks-per-socket ntasks-per-gpu threads-per-core gres-flags "
    "licenses L dependency d comment epilog prolog task-epilog task-prolog threads T network profile acctg-freq bcast-exclude tres-per-task "
    "mincpus het-group signal switches sockets-per-node cores-per-socket begin b deadline core-spec S input i accel-bind "
    "slurmd-debug open-mode export-file container-env cpu-freq cores extra-node-info B delay-boot nice tmp",
    "label l unbuffered u no-kill k overlap exact exclusive overcommit O oversubscribe s verbose v quiet Q kill-on-bad-exit K "
    "contiguous spread-job use-min-nodes immediate I preserve-env E disable-status X no-allocate Z interactive wait-for-children "
    "container-remount-defaults container-readonly container-mount-home no-container-mount-home no-container-entrypoint "
    "no-container-remap-root send-libs bcast propagate reboot external-launcher",
    ntasks="total", n="total", nodes="nodes", N="nodes", ntasks_per_node="each", gpus_per_task="gpus_each", gpus_per_node="gpus_per_node",
    gpus="gpus", G="gpus", gres="gres", cpus_per_task="cpus", c="cpus", export="export", output="output", o="output", error="output", e="output",
    chdir="folder", D="folder", container_image="image", container_name="container", environment="edf", container_mounts="mounts", container_workdir="workdir", multi_prog="flag:multi_prog", pty="flag:pty", container_writable="flag:writable", container_remap_root="flag:root",
    **{name: "noted" for name in "cpu-bind gpu-bind mem-bind distribution m relative r".split()},
    **{name: "job:" + long for long, names in (
        ("partition", "partition p"), ("account", "account A"), ("qos", "qos q"), ("time", "time t"), ("constraint", "constraint C"),
        ("nodelist", "nodelist w"), ("exclude", "exclude x"), ("mem", "mem"), ("job-name", "job-name J"), ("reservation", "reservation"))
       for name in names.split()})

MPIRUN = _options(
    "H host hostfile machinefile machine-file f bind-to prefix output-filename timeout cpus-per-proc "
    "cpus-per-rank iface launcher launcher-exec rmk report-uri personality xml-file stdin display output envlist genvlist max-restarts ckpoint-interval "
    "bootstrap configfile dvm app host-list mem-bind hosts",
    "oversubscribe nooversubscribe allow-run-as-root tag-output timestamp-output report-bindings q quiet v verbose bynode byslot bycore bysocket "
    "display-map display-allocation merge-stderr-to-stdout genvall envall l prepend-rank bind-to-core bind-to-none enable-recovery "
    "no-local do-not-launch display-topo display-devel-map nolocal",
    **{name.replace("-", "_"): "noted" for name in "map-by rank-by rankfile rf cpu-set cpu-bind".split()},
    np="total", n="total", c="total", npernode="each", N="each", ppn="each", perhost="each", ntasks_per_node="each", x="mpi_env", mca="mca", gmca="mca", prtemca="two",
    pmixmca="two", genv="genv", env="genv", wdir="folder", wd="folder")

HOROVOD = _options(
    "H hosts hostfile p ssh-port start-timeout output-filename host-discovery-script slots slots-per-host reset-limit "
    "elastic-timeout cooldown-range mpi-args config-file log-level autotune-log-file binding-args tcp ssh-identity-file i prefix-timestamp thread-affinity",
    "gloo use-gloo mpi use-mpi js use-jsrun verbose disable-cache autotune check-build no-stall-check hierarchical-allreduce prefix-output-with-timestamp",
    np="total", num_proc="total", n="total", min_np="least", min_num_proc="least", max_np="most", max_num_proc="most",
    timeline_filename="env:HOROVOD_TIMELINE", cycle_time_ms="env:HOROVOD_CYCLE_TIME", cache_capacity="env:HOROVOD_CACHE_CAPACITY",
    fusion_threshold_mb="value", network_interface="noted", network_interfaces="noted", nics="noted")

COLOSSAL = _options("host hostfile H master-addr master-port include exclude ssh-port extra-launch-args", "", nproc_per_node="each", num_nodes="nodes",
                    m="flag:module")
COMPOSER = _options("stdout stderr base-rank master-addr master-port", "verbose v", nproc="each", n="each", world_size="total",
                    node_rank="node_rank", module_mode="flag:module", m="flag:module", command_mode="flag:program", c="flag:program")

SSH = _options("b c D E e F I i J L l m O o p Q R S W w B P", "4 6 A a C f G g K k M N n q s T t V v X x Y y")

# pdsh, clush and parallel-ssh, which run the text that follows on every node.
PDSH = _options("w x R l t u f g H h host hosts p par o e O timeout option outdir errdir user worker extra-args", "a A N S b B q i k v d r P L n inline print verbose askpass nostdin")

LAUNCHERS: Dict[str, Launcher] = {
    "torchrun": Launcher(TORCH, "pytorch", True),
    "torch.distributed.launch": Launcher(TORCH, "pytorch", True),
    "accelerate": Launcher(ACCELERATE, "pytorch", True),
    "deepspeed": Launcher(DEEPSPEED, "pytorch", True),
    "colossalai": Launcher(COLOSSAL, "pytorch", True),
    "composer": Launcher(COMPOSER, "pytorch", True),
    "tune": Launcher(TORCH, "pytorch", True),  # torchtune's: a recipe follows
    "srun": Launcher(SRUN, "", False),
    "mpirun": Launcher(MPIRUN, "mpi", False),
    "horovodrun": Launcher(HOROVOD, "horovod", False),
    "ssh": Launcher(SSH, "", False),  # of a loop over nodes
    "pdsh": Launcher(PDSH, "", False),
}

# How a launcher is called: the name of the program, and the words that must follow it.
HEADS = {("torchrun",): "torchrun", ("torchrun_jsc",): "torchrun", ("accelerate", "launch"): "accelerate", ("accelerate-launch",): "accelerate", ("deepspeed",): "deepspeed",
         ("colossalai", "run"): "colossalai", ("composer",): "composer", ("tune", "run"): "tune", ("srun",): "srun", ("mpirun",): "mpirun", ("mpiexec",): "mpirun",
         ("mpiexec.hydra",): "mpirun", ("orterun",): "mpirun", ("prterun",): "mpirun", ("horovodrun",): "horovodrun", ("ssh",): "ssh", ("pdsh",): "pdsh", ("clush",): "pdsh", ("parallel-ssh",): "pdsh",
         ("pssh",): "pdsh"}
# How it is called as a Python module: python -m NAME.
MODULES = {"torch.distributed.run": "torchrun", "torch.distributed.launch": "torch.distributed.launch",
           "torch.distributed.launcher": "torchrun", "torchrun_jsc": "torchrun", "accelerate.commands.launch": "accelerate", "deepspeed.launcher.runner": "deepspeed",
           "composer.cli.launcher": "composer", "horovod.runner.launch": "horovodrun", "horovod.run": "horovodrun"}

# Programs that are no training, so that an srun of them stays as it is.
UTILITIES = set(
    "hostname hostid nvidia-smi rocm-smi echo printf mkdir cp mv rsync rclone tar unzip gzip rm ls cat date env printenv sleep scontrol squeue sinfo module ml "
    "df du free ip ifconfig ibstat which type true false wget curl git pip pip3 conda mamba touch ln chmod killall pkill kill uname lscpu numactl-show nproc ps "
    "docker podman nvcc dcgmi test find lsblk mount umount sbcast sattach ulimit head tail getent nslookup ping hwloc-ls lstopo ray apptainer-pull".split())

# Programs that run another one elsewhere or in another way. A launcher may follow them.
WRAPPERS = set(
    "singularity apptainer shifter ch-run enroot podman-hpc pipenv poetry uv conda mamba micromamba numactl nsys ncu nvprof rocprof perf taskset nice ionice "
    "catchsegv xvfb-run strace ltrace pixi hatch pdm".split())

# Their options without a value, behind which a launcher may stand.
FLAGS_OF_WRAPPERS = set("--no-capture-output --live-stream --nv --rocm --cleanenv -e --contain -c --containall -C --writable-tmpfs --no-sync --frozen --locked --offline "
                        "--active --no-project --quiet -q -v --no-home --unsquash --compat".split())

# Variables by which programs find one another under other launchers. dlrun sets them for each learner.
RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "MACHINE_RANK", "RDZV_ENDPOINT", "RDZV_ID")
