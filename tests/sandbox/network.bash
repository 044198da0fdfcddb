# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154  # the parts share their variables
# The network: a bridge in the login host's own namespace (where the machine's firewall does not reach), one cable to each
# node, and one cable out to the machine, so that a shell outside can talk to slurmctld.
#
#   machine  dlsbK 10.77.K.254 ══ up0 ┐
#                          login      br0 10.77.K.1 ┬ n1 ══ eth0 10.77.K.11  node n1
#                                                   └ n2 ══ eth0 10.77.K.12  node n2
#
# The name dlsbK claims the subnet: the kernel refuses a second interface of that name, so two `up` cannot take the same.
# All of it vanishes with the namespaces' last process. The alias of lo, which outlives the cables, marks
# the namespaces as ours.

node_ip() { echo "${SB_NET}.$((10 + ${1#n}))"; }
net_mark() { echo "dl-sandbox $SB_ID $SB_DIR"; }
in_login_net() { nsenter --net="/proc/$(recorded_pid login)/ns/net" "$@"; }

# claim_subnet LOGIN-PID: makes the cable to the machine; sets SB_NET and SB_UPLINK.
claim_subnet() {
  local k try first=$((RANDOM % 250)) said
  for ((try = 0; try < 250; try++)); do
    k=$(((first + try) % 250 + 1))
    [[ -z $(ip -4 route show root "10.77.$k.0/24") ]] || continue
    ! ip -4 route show match "10.77.$k.0/24" | grep -qv '^default' || continue
    if said=$(ip link add "dlsb$k" type veth peer name up0 netns "$1" 2>&1); then
      SB_NET=10.77.$k SB_UPLINK=dlsb$k SB_CTL_IP=10.77.$k.1
      ip -batch - <<END
link set dev dlsb$k alias "uplink of $(net_mark)"
link set dev dlsb$k addrgenmode none
addr add 10.77.$k.254/24 dev dlsb$k
link set dev dlsb$k up
END
      return
    fi
    [[ $said == *"File exists"* ]] || network_refusal "$said"
  done
  die "no free subnet 10.77.K.0/24 is left for the nodes"
}

# connect_login, connect_node NODE: cables and addresses.
connect_login() {
  local said
  said=$(in_login_net ip -batch - 2>&1 <<END
link set dev lo alias "$(net_mark)"
link set dev lo up
link add br0 type bridge
link set dev br0 addrgenmode none
link set dev up0 addrgenmode none
addr add $SB_CTL_IP/24 dev br0
link set dev up0 master br0
link set dev up0 up
link set dev br0 up
END
  ) || network_refusal "$said"
}
connect_node() {
  local said pid
  pid=$(recorded_pid "$1") || die "node $1 ended while it was being made; see $SB_DIR/log/$1.log"
  said=$(in_login_net ip -batch - 2>&1 <<END
link add $1 type veth peer name eth0 netns $pid
link set dev $1 addrgenmode none
link set dev $1 master br0
link set dev $1 up
END
  ) || network_refusal "$said"
  said=$(nsenter --net="/proc/$pid/ns/net" ip -batch - 2>&1 <<END
link set dev lo alias "$(net_mark)"
link set dev lo up
link set dev eth0 addrgenmode none
addr add $(node_ip "$1")/24 dev eth0
link set dev eth0 up
END
  ) || network_refusal "$said"
}

cmd_node() {
  need_running
  (($# == 2)) || usage_error "node: usage: dl-sandbox node cut|heal NODE"
  ((EUID == 0)) || die "root is needed to change a node's network"
  check_node "$2"
  case $1 in
    cut) in_login_net ip link set dev "$2" down ;;
    heal) in_login_net ip link set dev "$2" up ;;
    *) usage_error "node $1: unknown; allowed: cut, heal" ;;
  esac
}
# is_cut NODE
is_cut() { [[ $(in_login_net ip -o link show dev "$1" 2>/dev/null) != *",UP"* ]]; }
