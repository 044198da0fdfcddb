# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154  # the parts share their variables
# --slurmdbd: MariaDB and slurmdbd on the login host, two tenants (accounts vision and nlp, equal shares) in which every user
# of this machine is, and the QOS of the two tiers. A job without a QOS gets `normal`, which preempts borrowers too.

accounting_conf() {
  cat <<END
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=$SB_CTL_IP
AccountingStoragePass=$SB_DIR/munge/socket
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=limits,qos
AccountingStoreFlags=job_comment
PriorityWeightQOS=1000000
PriorityWeightFairshare=100000
PriorityWeightAge=1000
PreemptType=preempt/qos
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE
END
}
write_slurmdbd_conf() {
  (umask 077 && cat >"$SB_DIR/etc/slurmdbd.conf") <<END
AuthType=auth/munge
AuthInfo=socket=$SB_DIR/munge/socket
DbdHost=login
DbdAddr=$SB_CTL_IP
SlurmUser=root
DebugLevel=verbose
LogFile=$SB_DIR/log/slurmdbd.log
PidFile=$SB_DIR/run/slurmdbd.slurm
PluginDir=$(system_plugin_dir)
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageLoc=slurm_acct
StorageUser=slurm
StoragePass=$1
END
}

# make_database: an empty one, whose only user is slurmdbd, with a password of its own. Takes seconds: run it early.
make_database() {
  local password
  mkdir -m 700 "$SB_DIR/db" || return 1
  password=$(od -An -N16 -tx4 /dev/urandom | tr -d ' \n')
  # The password reaches the files before any process list: it is never on a command line.
  (umask 077 && printf "%s\n" "CREATE DATABASE slurm_acct;" \
    "GRANT ALL ON slurm_acct.* TO 'slurm'@'127.0.0.1' IDENTIFIED BY '$password';" >"$SB_DIR/db/init.sql")
  (umask 077 && printf '[client]\nhost=127.0.0.1\nuser=slurm\npassword=%s\n' "$password" >"$SB_DIR/db/client.cnf")
  write_slurmdbd_conf "$password"
  mariadb-install-db --no-defaults --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve --user=root \
    --datadir="$SB_DIR/db/data" >"$SB_DIR/log/mariadb-install-db.out" 2>&1 9>&-
}
# As slurmdbd will: the port is open before the user of init.sql is made.
mariadb_answers() { (enter_host login mariadb --defaults-file="$SB_DIR/db/client.cnf" -e 'SELECT 1' slurm_acct) >/dev/null 2>&1; }
start_mariadb() {
  local -a first=()
  [[ ! -e $SB_DIR/db/init.sql ]] || first=(--init-file="$SB_DIR/db/init.sql")
  # What a crash of this machine would lose is thrown away anyway, so nothing waits for the disk.
  spawn mariadb login mariadbd --no-defaults --user=root --datadir="$SB_DIR/db/data" --socket="$SB_DIR/db/socket" \
    --bind-address=127.0.0.1 --port=3306 --skip-name-resolve --pid-file="$SB_DIR/db/pid" --innodb-buffer-pool-size=64M \
    --innodb-flush-log-at-trx-commit=0 --innodb-lock-wait-timeout=900 --skip-log-bin --log-error="$SB_DIR/log/mariadb.log" "${first[@]+"${first[@]}"}"
  wait_until 30 mariadb_answers || die "mariadbd does not answer: $(tail -n 3 "$SB_DIR/log/mariadb.log")"
  rm -f "$SB_DIR/db/init.sql"
}
accounting_answers() { SLURM_CONF=$SB_DIR/etc/slurm.conf timeout 5 sacctmgr -n show cluster >/dev/null 2>&1; }
start_slurmdbd() {
  spawn slurmdbd login slurmdbd -D
  wait_until 30 accounting_answers || die "slurmdbd does not answer: $(tail -n 3 "$SB_DIR/log/slurmdbd.log")"
}

accounting() { SLURM_CONF=$SB_DIR/etc/slurm.conf sacctmgr -i -Q "$@" >>"$SB_DIR/log/sacctmgr.out" 2>&1; }
# start_accounting: before slurmctld, so that its first look at the accounts is complete.
start_accounting() {
  local -a users
  start_daemon mariadb
  start_daemon slurmdbd
  mapfile -t users < <(awk -F: '$3 == 0 || $3 == 65534 || ($3 >= 1000 && $3 < 60000) { print $1 }' /etc/passwd | grep -xE '[a-z_][a-z0-9_-]*' | head -n 200)
  { accounting add cluster "dl-$SB_NAME" &&
    accounting add qos dl-borrow Priority=0 PreemptMode=requeue GraceTime="$SB_GRACE" Flags=NoReserve &&
    accounting add qos dl-guaranteed Priority=1000 Preempt=dl-borrow &&
    accounting modify qos normal set Priority=1000 Preempt=dl-borrow &&
    accounting modify account root set QOS=normal,dl-guaranteed,dl-borrow DefaultQOS=normal &&
    accounting add account vision,nlp Description=tenant Organization=dl Fairshare=1 &&
    add_users "${users[@]}"; } || die "the accounts could not be made: $(tail -n 3 "$SB_DIR/log/sacctmgr.out")"
}
add_users() {
  local list
  list=$(printf '%s,' "$@")
  accounting add user "${list%,}" Account=vision,nlp DefaultAccount=vision Fairshare=1 && printf '%s\n' "$@" >>"$SB_DIR/run/users"
}
# know_user USER: one that /etc/passwd does not name (from a directory service) gets its associations when it first comes.
know_user() {
  [[ $SB_SLURMDBD == yes ]] && ! grep -qxF -- "$1" "$SB_DIR/run/users" || return 0
  add_users "$1" || say "user $1 could not be added to the accounts: $(tail -n 1 "$SB_DIR/log/sacctmgr.out")"
}
