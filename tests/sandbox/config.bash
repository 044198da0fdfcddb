# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154  # the parts share their variables
# The files in $SB_DIR/etc: slurm.conf, gres.conf, cgroup.conf, mpi.conf, plugstack.conf, dl.toml, hosts.

write_hosts() {
  local node
  echo "127.0.0.1 localhost"
  echo "$SB_CTL_IP login"
  for node in $(node_names); do echo "$(node_ip "$node") $node"; done
}

memory_mb() { awk '$1 == "MemTotal:" { print int($2 / 1024) }' /proc/meminfo; }

write_slurm_conf() {
  local gres='' plugin_dir memory node
  memory=$(memory_mb)
  ((SB_GPUS == 0)) || gres=" Gres=gpu:${SB_GPU_TYPE:+$SB_GPU_TYPE:}$SB_GPUS"
  plugin_dir=$(system_plugin_dir)
  cat <<END
# Written by dl-sandbox; it lives as long as the sandbox '$SB_NAME'.
ClusterName=dl-$SB_NAME
SlurmctldHost=login($SB_CTL_IP)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$SB_DIR/munge/socket
StateSaveLocation=$SB_DIR/state
SlurmdSpoolDir=$SB_DIR/nodes/%n/spool
TmpFS=$SB_DIR/nodes/%n/tmp
SlurmctldPidFile=$SB_DIR/run/slurmctld.slurm
SlurmdPidFile=$SB_DIR/run/slurmd.%n.slurm
SlurmctldLogFile=$SB_DIR/log/slurmctld.log
SlurmdLogFile=$SB_DIR/log/slurmd.%n.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
PluginDir=$plugin_dir${SB_PLUGINS:+:$SB_PLUGINS}
PlugStackConfig=$SB_DIR/etc/plugstack.conf
MailProg=/bin/true
MpiDefault=none
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# Nodes claim CPUs and memory that the one machine has once.
SlurmdParameters=config_overrides
ReturnToService=2
# Each job has its extern step, as on clusters with pam_slurm_adopt.
PrologFlags=Alloc,Contain
TaskPlugin=task/$([[ $SB_CGROUP == yes ]] && echo cgroup || echo none)
ProctrackType=proctrack/$([[ $SB_CGROUP == yes ]] && echo cgroup || echo linuxproc)
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=5
PriorityType=priority/multifactor
JobRequeue=1
KillWait=10
MinJobAge=3600
PreemptMode=REQUEUE
END
  [[ ! -e $SB_PLUGINS/job_submit_dl.so ]] || echo "JobSubmitPlugins=dl"
  for node in $(node_names); do
    echo "NodeName=$node NodeAddr=$(node_ip "$node") Sockets=1 CoresPerSocket=$SB_CPUS ThreadsPerCore=1 RealMemory=$memory$gres State=UNKNOWN"
  done
  echo "DefMemPerCPU=$((memory / SB_CPUS))"
  if [[ $SB_SLURMDBD == yes ]]; then
    accounting_conf
  else
    cat <<END
PreemptType=preempt/partition_prio
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
PartitionName=borrow Nodes=ALL MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=$SB_GRACE
END
  fi
}
# with_changes KEY=VALUE…: slurm.conf from stdin, where a given key replaces its line.
with_changes() {
  local change drop=''
  for change in "$@"; do
    [[ ${change%%=*} =~ ^(NodeName|PartitionName|DownNodes)$ ]] || drop+="|${change%%=*}"
  done
  grep -viE "^(${drop#|})=" || true
  (($# == 0)) || printf '%s\n' "$@"
}
# Slurm's own answer needs a slurm.conf and asks the controller; so the folders where packages put the plugins are looked at.
system_plugin_dir() {
  local dir
  for dir in ${DL_SANDBOX_SLURM_PLUGINS:+"$DL_SANDBOX_SLURM_PLUGINS"} /usr/lib/*/slurm-wlm /usr/lib/*/slurm /usr/lib64/slurm /usr/lib/slurm /usr/local/lib/slurm \
    "$(dirname "$(command -v slurmctld)")/../lib/slurm" "$(dirname "$(command -v slurmctld)")/../lib64/slurm"; do
    [[ -e $dir/auth_munge.so ]] && { readlink -f "$dir"; return; }
  done
  die "Slurm's plugins (auth_munge.so) were not found; name their folder in DL_SANDBOX_SLURM_PLUGINS"
}

write_gres_conf() {
  local node i=0 type=${SB_GPU_TYPE:+ Type=$SB_GPU_TYPE}
  local -a real=(/dev/nvidia[0-9] /dev/nvidia[0-9][0-9])
  echo "AutoDetect=off"
  for node in $(node_names); do
    case $SB_GPU_KIND in
      fake) echo "NodeName=$node Name=gpu$type File=$SB_DIR/dev/gpu$( ((SB_GPUS == 1)) && echo 0 || echo "[0-$((SB_GPUS - 1))]")" ;;
      real)
        local k
        for ((k = 0; k < SB_GPUS; k++)); do echo "NodeName=$node Name=gpu$type File=${real[i++]}"; done
        ;;
    esac
  done
}
write_cgroup_conf() {
  cat <<END
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainCores=no
ConstrainDevices=no
ConstrainRAMSpace=$SB_CGROUP
ConstrainSwapSpace=no
END
}
# With Slurm's default, mixed (a ring or a tree, by what the fence carries), ranks of Open MPI 4.1.4 on PMIx 4.2.2 now and then
# call a null pointer in MPI_Init when CPUs are scarce: 25 of 680 starts of 6 ranks on 3 nodes, with trees alone 1 of 430.
write_mpi_conf() { echo "PMIxCollFence=tree"; }
write_dl_toml() {
  local what=partition guaranteed=batch borrow=borrow
  [[ $SB_SLURMDBD == no ]] || { what=qos guaranteed=dl-guaranteed borrow=dl-borrow; }
  cat <<END
# The site configuration of this sandbox; see dl.toml(5).
[nodes]
gpus_per_node = $SB_GPUS
${SB_GPU_TYPE:+types = { $SB_GPU_TYPE = $SB_GPUS \}}

[tiers.guaranteed]
$what = "$guaranteed"

[tiers.borrow]
$what = "$borrow"
END
  # An installed tree may have been moved from where it was built for.
  [[ ! -d $SB_BIN/../share/slurm-dl/frameworks.d ]] ||
    printf '\n[frameworks]\ncatalogue = ["%s", "%s"]\n' "$(readlink -f "$SB_BIN/../share/slurm-dl/frameworks.d")" "$SB_DIR/etc/frameworks.d"
}
# write_config DL-TOML-FILE CHANGES…
write_config() {
  local toml=$1 etc=$SB_DIR/etc
  shift
  write_hosts >"$etc/hosts" &&
    write_slurm_conf | with_changes "$@" >"$etc/slurm.conf" &&
    write_gres_conf >"$etc/gres.conf" &&
    write_cgroup_conf >"$etc/cgroup.conf" &&
    write_mpi_conf >"$etc/mpi.conf" &&
    { [[ ! -e $SB_PLUGINS/spank_dl.so ]] || echo "required $SB_PLUGINS/spank_dl.so"; } >"$etc/plugstack.conf" || return 1
  if [[ -n $toml ]]; then cp "$toml" "$etc/dl.toml"; else write_dl_toml >"$etc/dl.toml"; fi
  chmod 644 "$etc"/*
}
