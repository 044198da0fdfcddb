# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# --slurmdbd: MariaDB, slurmdbd, accounts and QOS.
accounting_conf() { :; }
start_mariadb() { :; }
start_slurmdbd() { :; }
