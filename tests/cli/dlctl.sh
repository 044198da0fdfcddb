#!/usr/bin/env bash
# dlctl on the command line: help, bad input, the catalogue, the configuration check, and jobs that ran without Slurm,
# whose directories are laid down here. No controller is needed.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
dlctl=$top_builddir/launcher/ctl/dlctl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DL_CONFIG=$work/dl.toml SLURM_CONF=$work/no-slurm.conf
catalogue=$(printf '"%s", ' "$top_srcdir"/frameworks/*/)
names=$(for entry in "$top_srcdir"/frameworks/*/*.toml; do basename "$entry" .toml; done | jq -Rnc '[inputs] | sort')
printf '[frameworks]\ncatalogue = [%s]\n' "${catalogue%, }" >"$DL_CONFIG"
cd "$work" || exit 1

# expect NAME STATUS PATTERN ARGUMENTS...: of dlctl (expect_run in tap.sh).
expect() { expect_run "$1" "$2" "$3" "$dlctl" "${@:4}"; }

expect "help lists the subcommands" 0 '^ +frameworks ' --help
for sub in status why pause resume grow scaling usage quota "quota reclaim" "quota sync" logs report export top frameworks clean migrate python doctor "config check"; do
  # shellcheck disable=SC2086  # two words on purpose
  expect "$sub has a help" 0 'Usage: dlctl' $sub --help
done
for words in --version --help "status --help" "status --ended" "clean" "frameworks"; do
  # shellcheck disable=SC2016,SC2086  # expanded by that shell; two words on purpose
  [[ -c /dev/full ]] && expect_run "dlctl $words tells that it cannot print" 1 '^dlctl( [a-z]+)?: standard output: No space left on device$' \
    sh -c '"$@" >/dev/full' sh "$dlctl" $words
done
expect "the version is told" 0 '^slurm-dl [0-9]' --version
expect "a subcommand is needed" 2 'subcommand is required'
expect "an unknown subcommand is refused" 2 'subcommand is required' paus 12
expect "a folder that is no job directory is told" 3 "is not a job directory: no dlrun has written in it" status /usr
mkdir checkpoints && touch checkpoints/SAVES.jsonl
expect "a checkpoint directory is known as one, also when no job holds it" 2 'is a checkpoint directory, not a job directory; .* dlckpt ls checkpoints' status checkpoints
expect "an unknown option is refused" 2 '--forse' pause 12 --forse
expect "pause needs a job" 2 'JOB is required' pause
expect "why needs a job" 2 'JOB is required' why
# no_slurm NAME STATUS PATTERN ARGUMENTS...: of dlctl doctor on a host without Slurm's commands.
no_slurm() { expect_run "$1" "$2" "$3" env PATH=/nowhere "$(realpath "$dlctl")" doctor "${@:4}"; }
no_slurm "doctor without a Slurm says so" 1 '^wrong  slurmctld: Slurm does not answer here: scontrol: no such program in PATH' --only slurmctld
no_slurm "as JSON too" 1 '"grade": "wrong"' --only slurmctld --json
no_slurm "checks that need it say so" 0 '^note   clock: not looked at, since slurmctld does not answer$' --only clock
expect "a check that is none is refused with those there are" 2 "--only: .*clocks.*allowed: slurmctld, munge" doctor --only clocks
expect "migrate needs a file" 2 'FILE is required' migrate
export DL_PYTHON_FOLDER=$top_srcdir/launcher/python
expect "a file that is not there cannot be migrated" 1 'nowhere.sh: No such file' migrate nowhere.sh
printf '#!/bin/bash\nmake\n' >make.sh
expect "a script without a training is not migrated" 2 'no line was found that starts a training' migrate make.sh
expect "the line for a shell is printed" 0 "^export PYTHONPATH='/.*/slurm-dl/python'" python
expect "install and remove exclude one another" 2 '--remove' python --install --remove
expect "what is not a number is no job" 2 'JOB: ' why x
expect "only dlpolicyd takes GPUs back" 2 'allowed: --dry-run' quota reclaim 12
now=$(date +%s)
printf 'time_s,span_s,tenant,quota,own,lent,borrowed,unused,pending\n%s,60,vision,8,4,0,2,1,0\ntorn' $((now - 1200)) >history.csv
past=(quota --history --history-file history.csv)
expect "a history is drawn" 0 'vision: on average 4.0 own, 0.0 lent, 2.0 borrowed, 1.0 not used' "${past[@]}" --since 1h
expect "torn lines of it are told and passed over" 0 '1 line is not of a history and passed over' "${past[@]}"
expect "it is printed as it is kept" 0 '60,vision,8,4,0,2,1,0$' "${past[@]}" --csv
expect "and as JSON" 0 '"borrowed": 2.0' "${past[@]}" --json --tenant VISION
expect "and as a picture" 0 '' "${past[@]}" --svg picture.svg
check "the picture is whole" "$(grep -q '</svg>' picture.svg || echo 'it has no end')"
expect "a tenant that it does not name is refused with those it does" 2 "'nlp'; allowed: vision" "${past[@]}" --tenant nlp
expect "what it does not tell of is said" 3 'tells nothing of the last 10m' "${past[@]}" --since 10m
expect "a time that is none is refused" 2 '--since: ' "${past[@]}" --since soon
expect "too short a time is refused" 2 'allowed: 10m or more' "${past[@]}" --since 5s
expect "two forms at once are refused" 2 'exclude one another' "${past[@]}" --csv --json
expect "options of a history need it" 2 'need --history' quota --since 1h
# Without a slurm.conf, Slurm's own sacct would be silent for a minute.
mkdir none accounts
printf '#!/bin/sh\necho "Slurm accounting storage is disabled" >&2\nexit 1\n' >none/sacct
chmod +x none/sacct
PATH=$PWD/none:$PATH expect "without accounts, what tenants used comes from the history, and that is said" 0 '^vision +- +0\.1 +0\.0 +0\.0 +-$' \
  usage --history-file history.csv
PATH=$PWD/none:$PATH expect "and its source is named" 0 '^GPU-hours, from the history of dlpolicyd, which knows no users$' usage --history-file history.csv --account VISION
PATH=$PWD/none:$PATH expect "as CSV" 0 '^vision,,,0\.0667,0\.0000,0\.0333,,"the history of dlpolicyd, which knows no users"$' usage --history-file history.csv --csv
PATH=$PWD/none:$PATH expect "a tenant without use is none" 3 "'nlp' has used no GPUs in the last 2h" usage --history-file history.csv --since 2h --account nlp
PATH=$PWD/none:$PATH expect "without accounts and history nothing is known" 3 'keeps no accounts .*gone.csv has no history' usage --history-file gone.csv
cat >accounts/sacct <<END
#!/bin/sh
[ "\$SLURM_TIME_FORMAT" = %s ] || exit 1
printf 'vision\037ann\037$((now - 3600))\037Unknown\037RUNNING\037gres/gpu=2\037\03712\n'
END
chmod +x accounts/sacct
printf '#!/bin/sh\nexit 0\n' >accounts/squeue
chmod +x accounts/squeue
PATH=$PWD/accounts:$PATH expect "with accounts, they are told by user" 0 '^vision +ann +1 +0\.0 +0\.0 +2\.0$' usage --history-file history.csv
# slurmdbd does not know the label of a job that runs; slurmctld does.
printf '#!/bin/sh\nprintf "%%-24s%%s\\n" 12 "dl:1 tenant=vision tier=auto learners=2 gpus=1 pausable=0 placement=pack charge=own"\n' >accounts/squeue
PATH=$PWD/accounts:$PATH expect "and one that runs as it is charged now" 0 '^vision +ann +1 +2\.0 +0\.0 +0\.0$' usage --history-file history.csv
printf '#!/bin/sh\necho gone >&2\nexit 1\n' >accounts/squeue
PATH=$PWD/accounts:$PATH expect "without slurmctld, that is said" 0 'dlctl usage: jobs that run count as not charged: .*gone' usage --history-file history.csv
PATH=$PWD/accounts:$PATH expect "torn lines of the history are told of" 0 'history.csv: 1 line is not of a history' usage --history-file history.csv
PATH=$PWD/accounts:$PATH expect "a history that was named and is not there is not passed over" 3 'gone.csv has no history' usage --history-file gone.csv
PATH=$PWD/accounts:$PATH expect "nor is what is none" 2 '/dev/null' usage --history-file /dev/null
# Accounts that cannot be asked now are not those that nobody keeps.
mkdir down
printf '#!/bin/sh\necho "sacct: error: slurm_persist_conn_open: Connection refused" >&2\nexit 1\n' >down/sacct
chmod +x down/sacct
PATH=$PWD/down:$PATH expect "that sacct fails is said where the history is told instead" 0 'dlctl usage: sacct tells nothing: .*Connection refused' usage --history-file history.csv
PATH=$PWD/down:$PATH expect "and the history is told" 0 '^vision +- +0\.1 ' usage --history-file history.csv
PATH=$PWD/down:$PATH expect "and where there is none" 1 'sacct tells nothing: .*Connection refused.*gone.csv has no history' usage --history-file gone.csv
expect "one form at a time, of usage too" 2 '--csv and --json exclude each other' usage --csv --json
expect "where there is no history, that is said" 3 'gone.csv has no history' quota --history --history-file gone.csv
expect "resume needs a job" 2 'JOB is required' resume
expect "logs needs a job" 2 'JOB is required' logs
for bad in '' 'x' '12;id' '--' '12 13' '_' $'1\n2' 'local' '-1'; do
  expect "'$(printf %q "$bad")' is not a job" 2 'is not a job|required|argument|ption' pause -- "$bad"
done
expect "a number of nodes is named that cannot be added" 2 '--nodes: .*0' grow 12 --nodes 0
expect "a bad time-out is named" 2 '--timeout: ' pause 12 --timeout soon
expect "a negative number of lines is refused" 2 '--lines' logs 12 -n -1
expect "a negative learner is refused" 2 '--learner' logs 12 --learner -1
for bad in --since --until; do expect "$bad needs a time" 2 "$bad: 'soon' is not a time; allowed" logs 12 $bad soon; done
expect "a time that ends before it begins is refused" 2 'not after --since' logs 12 --since 1h --until 2h
expect "a bad expression is named with its place" 2 '--grep: .*at character' logs 12 --grep 'a(b'
expect "attempts count from 1" 2 '--attempt' logs 12 --attempt 0
expect "a folder that is not there is named" 3 "'/nonexistent/job' is not a folder" status /nonexistent/job
expect "a local run that is not there is named" 3 'there is no dl-local-7 in this folder' status local-7

# The catalogue
expect "frameworks are listed" 0 '^pytorch +any ' frameworks --no-probe
json=$("$dlctl" frameworks --json)
check "frameworks --json names all and what is here" "$(jq -e --argjson names "$names" \
  '[.[].name] == $names and all(.[]; has("here") and has("fault") and (.families | type) == "array")' \
  <<<"$json" 2>&1 | grep -v true)"
expect "a bad list of nodes is refused" 2 '--nodes: ' frameworks --nodes 'n[1'
mkdir catalogue
cat >catalogue/fake.toml <<'TOML'
summary = "a framework for this test"
probe = "echo $FAKE_VERSION"
default_version = "2"
[[versions]]
version = "1"
activate = "FAKE_VERSION=one"
[[versions]]
version = "2"
environment = { FAKE_VERSION = "two" }
[[versions]]
version = "0"
hidden = true
TOML
cat >catalogue/absent.toml <<'TOML'
probe = "echo it is not here >&2; exit 3"
TOML
cat >fake.toml <<TOML
[defaults]
framework = "fake"
[frameworks]
catalogue = ["$work/catalogue"]
TOML
DL_CONFIG=$work/fake.toml expect "each version is probed after its activation" 0 '^fake +1 +one ' frameworks
DL_CONFIG=$work/fake.toml expect "a version's variables reach its probe" 0 '^fake +2 \(default\) +two ' frameworks
DL_CONFIG=$work/fake.toml expect "a probe that fails says why" 0 'absent is not usable here: it is not here' frameworks
check "hidden versions are not listed" "$(DL_CONFIG=$work/fake.toml "$dlctl" frameworks --no-probe | grep -E '^fake +0')"
DL_CONFIG=$work/fake.toml expect "hidden versions are shown when asked for" 0 '^fake +0 ' frameworks --hidden --no-probe

# The configuration check: a table of bad files, and the message each must give.
expect "a good file is good" 0 "dl.toml: good" config check
expect "config needs to be told what" 2 'subcommand is required' config
expect "a file that is not there is refused when it is named" 2 'there is no such file' config check "$work/none.toml"
# Whether the default catalogue is there depends on whether this build has been installed.
check "without dl.toml the defaults are looked at" "$(DL_CONFIG=$work/none.toml "$dlctl" config check 2>&1 |
  grep -qE 'not there, so the defaults apply|known: none' || echo "neither the defaults nor the missing catalogue is named")"
check "a good file in quiet mode says nothing" "$("$dlctl" config check -q 2>&1)"
while IFS='|' read -r title text pattern; do
  printf '%b' "$text" >bad.toml
  expect "config check: $title" 2 "$pattern" config check "$work/bad.toml"
done <<'TABLE'
an unknown key|[defaults]\nframwork = "x"\n|bad\.toml:2: .*framwork.*allowed
an unknown section|[default]\ntier = "auto"\n|bad\.toml:1: .*default
a wrong type|[defaults]\nrestarts = "three"\n|bad\.toml:2: .*restarts
a value out of range|[defaults]\nrestarts = -1\n|bad\.toml:2: .*restarts
an unknown tier|[defaults]\ntier = "gold"\n|bad\.toml:2: .*gold.*allowed
a tier with two meanings|[tiers.borrow]\nqos = "a"\npartition = "b"\n|bad\.toml:[0-9]+: .*borrow
text that is not TOML|[defaults\n|bad\.toml:1: 
an assignment without a name|[=\n|bad\.toml:1: 
brackets without end|[[[\n|bad\.toml:1: 
a framework that is not in the catalogue|[defaults]\nframework = "nope"\n[frameworks]\ncatalogue = []\n|bad\.toml.*nope|catalogue
TABLE
mkdir broken && printf 'famlies = []\n' >broken/x.toml
printf '[frameworks]\ncatalogue = ["%s"]\n' "$work/broken" >bad.toml
expect "a bad entry is named with its line" 2 'broken/x\.toml:1: famlies: unknown key; allowed: ' config check "$work/bad.toml"

# Runs without Slurm: the record alone
job=dl-local-20261121-030000-7
mkdir -p $job/logs/attempt-1 $job/logs/attempt-2
cat >$job/events.jsonl <<'JSON'
{"time_ms":1790000000000,"attempt":1,"state":"DEPLOY","reason":""}
{"time_ms":1790000001000,"attempt":1,"learner":0,"state":"PROCESSING","reason":"","host":"ws"}
{"time_ms":1790000001000,"attempt":1,"state":"PROCESSING","reason":"all learners run"}
{"time_ms":1790000009000,"attempt":1,"learner":0,"state":"FAILED","reason":"killed by signal 9","code":"C201","exit":137}
{"time_ms":1790000010000,"attempt":2,"state":"PROCESSING","reason":"restarted"}
{"time_ms":1790000020000,"attempt":2,"state":"HALTED","reason":"asked by dlctl pause","step":40}
JSON
printf 'one\ntwo\nthree\n' >$job/logs/attempt-2/learner-0.log
printf 'eins\nzwei' >$job/logs/attempt-2/learner-1.log
printf 'first try\n' >$job/logs/attempt-1/learner-0.log
expect "status of a local run" 0 '^state +HALTED since' status $job
expect "of a job without train steps there is no scaling" 1 "job local-.*-7: no train steps were measured yet" scaling $job
size() { printf '{"learners":%d,"nodes":1,"batch":%d,"passes":1,"step_s":%s,"spread_s":0.001,"steps":40,"time_s":1}' "$@"; }
printf '{"version":1,"name":"train","framework":"pytorch","gpu_type":"","gpus_per_learner":0,"least_learners":1,"most_learners":4,"batch":"16:64:4","now":%s,"measured":[%s,%s]}\n' \
  '{"learners":2,"nodes":1,"batch":32,"passes":1}' "$(size 1 16 0.16)" "$(size 2 32 0.2)" >$job/scaling.json
expect "how a local run scales is told" 0 '^> +2 +1 +32 +200 ms +20 % +160 .* 1\.60 +measured' scaling $job
expect "in its status, too" 0 '^scaling +2 learners: 160 samples/s, 1\.6 times 1 learner \(measured\); 4 would give 1\.[0-9]+ times that' status $job
expect "as JSON" 0 '"confidence": "guessed"' scaling $job --json
expect "as a picture" 0 '' scaling $job --svg scaling.svg
check "that picture is whole" "$(grep -q '</svg>' scaling.svg || echo 'it has no end')"
expect "one form at a time" 2 '--json and --svg exclude one another' scaling $job --json --svg other.svg
echo '{"version":2}' >$job/scaling.json
expect "a record of a later version is refused" 2 'its version is not 1' scaling $job
expect "and does no harm to the status" 0 '^state +HALTED since' status $job
rm -f $job/scaling.json
ln -s "$work/bad.toml" $job/scaling.json
expect "a record that is a link is not read" 2 '' scaling $job
rm -f $job/scaling.json
expect "its number is enough" 0 '^why +asked by dlctl pause' status local-20261121-030000-7
expect "its path does as well" 0 '^train step +40' status "$work/$job/"
expect "the timeline has the failure's successor" 0 'restarted' status $job
check "status --json" "$("$dlctl" status --json $job | jq -e \
  '.[0] | .state == "HALTED" and .attempt == 2 and .saved_step == 40 and (.events | length) == 4' 2>&1 | grep -v true)"
ended=dl-local-20261121-040000-8
mkdir -p $ended/logs && ln -s "$work/bad.toml" $ended/logs/latest && mkdir -p dl-calls/f-1/dl-local-20261121-050000-9/results
printf '%s\n' '{"time_ms":1790000000000,"attempt":1,"state":"DEPLOY","reason":""}' '{"time_ms":1790000090000,"attempt":1,"state":"FAILED","reason":"out of memory","step":7}' >$ended/events.jsonl
sed 's/FAILED/COMPLETED/; s/out of memory/all learners finished/' $ended/events.jsonl >dl-calls/f-1/dl-local-20261121-050000-9/events.jsonl
touch -d '2026-09-22' $ended/events.jsonl
touch dl-calls/f-1/dl-local-20261121-050000-9/results/model.pt
expect "status --ended lists jobs that have ended, with attempts, times and reasons" 0 \
  '^local-20261121-040000-8 +FAILED +.* 1m30s +1 +7 +- +out of memory' status --ended
expect "status --ended takes folders, and no --dir" 2 'exclude' status --ended --dir .
expect "those of dl.submit, too" 0 '^local-20261121-050000-9 +COMPLETED .*all learners finished' status --ended .
check "a paused one has not ended" "$("$dlctl" status --ended | grep -- -030000-7)"
expect "clean tells what can go, and what stays and why" 0 'results/ holds model.pt' clean --older-than 0s
expect "clean keeps what is paused" 0 'local-20261121-030000-7 +HALTED .*stays: it is paused' clean --older-than 0s
expect "clean keeps what ended lately" 0 '050000-9 .*stays: it ended [0-9a-z ]+ ago' clean --results
expect "clean shows before it removes" 0 '1 of 3 job directories can go, .*; dlctl clean --yes removes them' clean --older-than 0s
check "without --yes nothing is removed" "$([ -e $ended ] || echo gone)"
expect "clean needs an age" 2 '--older-than: .many.' clean --older-than many
mkdir $ended/ck && touch $ended/ck/LEASE
expect "clean keeps checkpoints" 0 'stays: it holds checkpoints' clean --older-than 0s --yes
rm -r $ended/ck
expect "clean --json" 0 '"can_go": true' clean --json --older-than 0s
expect "clean --yes removes what can go" 0 'removed 1 of 3 job directories' clean --older-than 0s --yes
check "that one is gone, and what its link led to is not" "$(if [ -e $ended ] || [ ! -e bad.toml ] || [ ! -e dl-calls/f-1/dl-local-20261121-050000-9/results/model.pt ]; then ls; fi)"
expect "with --results that one goes, too" 0 'removed 1 of 2' clean --older-than 0s --yes --results
# Of a job of Slurm's only Slurm knows whether it has ended.
mkdir old && cp -r $job old/dl-12 && cp -r $job old/dl-12.2 && mkdir nothing
for run in old/dl-12 old/dl-12.2; do
  printf '{"time_ms":1790000000000,"attempt":1,"state":"COMPLETED","reason":"all learners finished"}\n' >$run/events.jsonl
done
without_slurm() { PATH=$work/nothing "$dlctl" "$@"; }
expect_run "without squeue, nothing of Slurm's is removed" 0 \
  '^12.2 +COMPLETED .*stays: squeue is not installed here, so nobody knows whether its job has ended' \
  without_slurm clean --older-than 0s --yes --results old
check "it is all there" "$(for run in old/dl-12 old/dl-12.2; do [ -e $run/events.jsonl ] || echo "$run is gone"; done)"
printf '{"time_ms":1790000000000,"attempt":1,"state":"FAILED","reason":"cancelled: saved at train step 7"}\n' >old/dl-12.2/events.jsonl
expect_run "a cancelled job is shown as such" 0 '^12.2 +CANCELLED .* cancelled: saved' without_slurm status --ended old
expect_run "by clean, too" 0 '^12.2 +CANCELLED ' without_slurm clean old
expect_run "status --ended goes by the records then" 0 '^12.1 +COMPLETED .* all learners finished' without_slurm status --ended old
expect_run "a run has the same name in status, status --ended and clean" 0 '^12.1 +COMPLETED ' without_slurm clean old
expect_run "also for programs" 0 '"run": 1,' without_slurm status --ended --json old
expect_run "where Slurm cannot be asked, a job is not called unknown" 1 "Slurm's commands are not installed here, and there is no dl-12" \
  without_slurm status 12
# A pattern of the site's with the user's name in it.
me=$(id -un)
mkdir -p "runs/$me" && cp -r old/dl-12 "runs/$me/12" && cp "$DL_CONFIG" patterns.toml
printf '[launcher]\njob_dir = "runs/%%u/%%j"\n' >>patterns.toml
by_pattern() { DL_CONFIG=$work/patterns.toml without_slurm "$@"; }
expect_run "a job directory named by the user is found by the job's id" 0 "runs/$me/12" by_pattern status 12
# Root in a folder of a user's: with that user's rights.
if [ "$(id -u)" = 0 ]; then
  chmod 711 "$work"
  mkdir -p mine/f-1 && cp -r old/dl-12 mine/f-1/dl-local-1 && cp -r old/dl-12 mine/dl-local-2
  install -d -o nobody theirs && cp -r old/dl-12 theirs/dl-local-3 && chown -R nobody theirs && ln -s ../mine theirs/dl-calls
  for place in theirs/dl-local-3 mine/f-1/dl-local-1 mine/dl-local-2; do find $place -exec touch -h -d 2026-09-22 {} +; done
  chmod 000 theirs/dl-local-3/events.jsonl
  expect "a job whose record cannot be read has no state" 0 '^local-3 +UNKNOWN .*its record cannot be read: .*Permission denied' status --ended theirs
  expect "and is not removed" 0 'stays: its record cannot be read' clean --older-than 0s --yes --results theirs
  chmod 600 theirs/dl-local-3/events.jsonl
  expect "root removes what is the user's own in a folder of a user's" 0 'removed 1 of 1 job' clean --older-than 0s --yes --results theirs
  check "and nothing that a link there leads to" "$([ -e mine/f-1/dl-local-1/events.jsonl ] || echo 'it is gone')"
  ln -s ../mine/dl-local-2 theirs/dl-local-4 && chown -h nobody theirs/dl-local-4
  expect "a user's link to what is root's is no job directory" 4 'is a link that belongs to another user' logs theirs/dl-local-4
  mkdir -m 777 open && cp -r mine/dl-local-2 open
  expect "where others may put links, root removes nothing" 4 'others may change what lies in' clean --older-than 0s --yes open
  expect "folders of several users are not taken together" 2 "folders of one user at a time" clean mine theirs
  expect "what is root's in a safe place goes" 0 'removed 1 of 1' clean --older-than 0s --yes --results mine
else
  skip "root removes what is the user's own in a folder of a user's" 'needs root'
fi
rm -rf old
expect "a local run is not resumed but started again" 2 'start the same dlrun line again' resume $job
expect "a local run that has ended cannot be paused" 2 'does not run' pause $job
check "logs of all learners are prefixed" "$(diff <("$dlctl" logs $job | sort -s -k 1,1) \
  <(printf '[0] one\n[0] two\n[0] three\n[1] eins\n[1] zwei\n'))"
check "logs of one learner are its output" "$(diff <("$dlctl" logs $job --learner 0) <(printf 'one\ntwo\nthree\n'))"
check "the last lines of each" "$(diff <("$dlctl" logs $job -n 1) <(printf '[0] three\n[1] zwei\n'))"
check "an older attempt" "$(diff <("$dlctl" logs $job --attempt 1) <(printf 'first try\n'))"
check "following a run that has ended ends" "$(diff <(timeout 20 "$dlctl" logs -f $job --learner 0) <(printf 'one\ntwo\nthree\n'))"
expect "an attempt that was not" 3 'has no attempt 9; it has 1 to 2' logs $job --attempt 9
expect "a learner that was not" 3 'learner 5 has no log in attempt 2' logs $job --learner 5
# Logs in order of time, lines that several wrote alike once, and hostile ones.
seen=dl-local-20261121-060000-1
mkdir -p $seen/logs/attempt-1 $seen/logs/attempt-2 $seen/logs/attempt-3
begin=1790000000
for a in 1 2 3; do
  printf '{"time_ms":%d000,"attempt":%d,"state":"PROCESSING","reason":"all learners run"}\n' $((begin + a * 1000)) $a
done >$seen/events.jsonl
for r in 0 1 2; do
  printf 'epoch 1\nmine %d\nepoch 2\n' $r >$seen/logs/attempt-2/learner-$r.log
  seq -f 'line %04g' 1000 >$seen/logs/attempt-3/learner-$r.log
  touch -d "@$((begin + 4000))" $seen/logs/attempt-3/learner-$r.log
done
check "lines that several learners wrote alike are shown once" "$(diff <("$dlctl" logs $seen --attempt 2) \
  <(printf '[0-2] epoch 1\n[0] mine 0\n[1] mine 1\n[2] mine 2\n[0-2] epoch 2\n'))"
check "with --no-fold each by itself" "$("$dlctl" logs $seen --attempt 2 --no-fold | sort | diff - \
  <(for r in 0 1 2; do printf '[%d] epoch 1\n[%d] epoch 2\n[%d] mine %d\n' $r $r $r $r; done | sort))"
check "some ranks alone" "$(diff <("$dlctl" logs $seen --attempt 2 --rank 0,2 --grep 'epoch 1|mine') \
  <(printf '[0,2] epoch 1\n[0] mine 0\n[2] mine 2\n'))"
# Without an index the times are estimated: a log grows evenly from the attempt's beginning to its last change.
check "a place is found by time" "$("$dlctl" logs $seen --rank 1 --since @$((begin + 3500)) 2>said | head -n 1 |
  grep -qE '^line 0(49|50)' || echo "it begins elsewhere")"
check "estimated times are called so" "$(grep -q 'the times of attempt 3 were not recorded' said || cat said)"
check "and so is its end" "$("$dlctl" logs $seen --rank 1 --attempt 3 --until @$((begin + 3500)) 2>/dev/null | tail -n 1 |
  grep -qE '^line 0(49|50)' || echo "it ends elsewhere")"
check "a time looks into each attempt that lasted then" "$("$dlctl" logs $seen --since @$((begin + 2100)) --until @$((begin + 3100)) 2>&1 |
  grep -e '^--' | diff - <(printf -- '-- attempt 2\n-- attempt 3\n'))"
expect "before the first attempt there are no logs" 3 'had no attempt yet' logs $seen --until @$begin
printf 'a\0b\n10%%\r20%%\n\377\376\n\033]0;title\007\033[2Jx\n\033[32mgreen\033[0m\nValueError: bad\nKeyError: next\n' >$seen/logs/attempt-1/learner-0.log
check "what a pipe gets is the log itself" "$("$dlctl" logs $seen --attempt 1 --rank 0 | cmp - $seen/logs/attempt-1/learner-0.log 2>&1)"
# script gives it a terminal.
TERM=xterm script -qec "$dlctl logs $seen --attempt 1 --rank 0" /dev/null </dev/null >screen 2>&1
check "a terminal gets no control characters but colours" "$(grep -aqF $'\x1b]0' screen && echo 'a title is set'; grep -aqF '\x1b]0;title' screen || cat -v screen)"
check "the first error stands out, and no other line" "$(grep -aqF $'\x1b[1;31mValueError: bad\x1b[0m' screen || cat -v screen; grep -aqF $'\x1b[1;31mKey' screen && echo 'the second one does')"
NO_COLOR=1 TERM=xterm script -qec "$dlctl logs $seen --attempt 1 --rank 0" /dev/null </dev/null >screen 2>&1
check "without colours nothing does" "$(grep -aqF $'\x1b[1;31m' screen && echo 'it does')"
head -c 20000000 /dev/zero | tr '\0' x >$seen/logs/attempt-1/learner-1.log
check "a log without a newline is whole, and costs little memory" "$( (ulimit -v 400000 && "$dlctl" logs $seen --attempt 1 --rank 1) | tr -d '\n' | wc -c | grep -qx 20000000 || echo 'it is not')"
ln -s /etc/passwd $seen/logs/attempt-1/learner-2.log
expect "a log that is a link is not read" 2 'learner-2.log' logs $seen --attempt 1 --rank 2
mkdir dl-local-8
expect "a run without logs" 3 'has no logs yet' logs local-8
expect "a run without a record" 0 'nothing is recorded' status local-8
mkdir dl-local-9
printf '{"time_ms":1790000001000,"attempt":1,"state":"PROCESSING","reason":"all learners run"}\n' >dl-local-9/events.jsonl
expect "a run whose dlrun is gone has failed" 0 '^state +FAILED' status local-9
printf '{"time_ms":1790000001000,"attempt":1,"state":"FAILED","reason":"\\u001b[31mred"}\n' >dl-local-8/events.jsonl
check "escape sequences in a record do not reach the terminal" "$("$dlctl" status local-8 | grep -q $'\x1b' && echo "they do")"
# Tenants
cat >tenants.toml <<'TOML'
[nodes]
types = { a100 = 8 }
counts = { a100 = 2 }
[tenants.vision]
quota = { a100 = 12 }
lend = { a100 = 4 }
borrow_limit = 8
weight = 2.5
group = "dept-a"
[tenants.nlp]
quota = 6
TOML
printf '[frameworks]\ncatalogue = [%s]\n' "${catalogue%, }" >>tenants.toml # make check runs before anything is installed
expect "config check shows tenants" 0 '^vision +12 a100 +4 a100 +8 +2.5 +dept-a +any$' config check tenants.toml
expect "config check warns of quotas beyond the nodes" 0 '^warning: tenants have a quota of 18 GPUs in all; the nodes have 16$' config check tenants.toml
sed -i '/^counts/d' tenants.toml
expect "config check says that nodes are not known" 0 '^warning: \[nodes\] counts does not tell' config check tenants.toml
printf '[tenants.vision]\nquota = 8\nlend = 9\n' >tenants.toml
expect "a tenant's fault is told with file and line" 2 'tenants.toml:1: tenants.vision: lends 9 GPUs of any type of a quota of 8; allowed: ' config check tenants.toml
finish
