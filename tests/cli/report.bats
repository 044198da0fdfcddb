#!/usr/bin/env bats
# dlctl report: one page about a job, from its job directory alone, whatever the job's program has written there. Without Slurm.
# shellcheck disable=SC2016  # the scripts of learners expand there
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup() {
  dlrun_setup
  dlctl=$top_builddir/launcher/ctl/dlctl
  export LC_ALL=C.UTF-8 TZ=UTC
}
# lacks FILE WORD: as it stands, in any case.
lacks() { if grep -qiF -- "$2" "$1"; then printf 'not expected: %s\nin: %s\n' "$2" "$1" >&2 && return 1; fi; }
# alone FILE: the page needs no other file and runs nothing, and is well-formed.
alone() {
  local word
  for word in '<script' 'src=' 'href' 'url(' '@import' 'javascript:' '<img' '<link' '<iframe'; do lacks "$1" "$word" || return 1; done
  grep -qF "content=\"default-src 'none'; style-src 'unsafe-inline'\"" "$1" || return 1
  /usr/bin/python3 - "$1" <<'PY'
import html.parser, sys
class Page(html.parser.HTMLParser):
    open = []
    def handle_starttag(self, tag, attributes):
        assert not [name for name, _ in attributes if name.startswith("on")], (tag, attributes)
        if tag != "meta":
            self.open.append(tag)
    def handle_startendtag(self, tag, attributes):
        pass
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.getpos())
page = Page()
page.feed(open(sys.argv[1], encoding="utf-8").read())
assert not page.open, page.open
PY
}
# A job that failed once, went on, saved and was paused: its events, launch plan and log, as dlrun writes them.
make_job() {
  mkdir -p "$1/logs/attempt-1" "$1/logs/attempt-2"
  cat >"$1/events.jsonl" <<'END'
{"time_ms":1789000000000,"attempt":1,"state":"DEPLOY"}
{"time_ms":1789000001200,"attempt":1,"learner":0,"state":"PROCESSING","host":"n1"}
{"time_ms":1789000001300,"attempt":1,"state":"PROCESSING","reason":"all learners run"}
{"time_ms":1789000061300,"attempt":1,"state":"PROCESSING","reason":"saved at train step 120","step":120}
{"time_ms":1789000071300,"attempt":1,"learner":1,"state":"FAILED","host":"n2","exit":1,"code":"C201","failure":"exit","reason":"learner 1 exited with code 1: KeyError: 'lr'"}
{"time_ms":1789000072000,"attempt":2,"state":"DEPLOY","reason":"restart 1 of 3"}
{"time_ms":1789000073000,"attempt":2,"state":"PROCESSING","reason":"all learners run"}
{"time_ms":1789000133000,"attempt":2,"state":"PROCESSING","reason":"saved at train step 300","step":300}
{"time_ms":1789000134000,"attempt":2,"state":"HALTED","reason":"paused by dlctl","step":300,"use":{"text":"used 31 % of 4 GPUs, 5.2 of 8 CPUs","gpus":4,"gpus_measured":4,"gpu_share":0.31,"cpus":8,"cpus_used":5.2,"training_s":110,"waiting_s":5}}
END
  cat >"$1/plan.json" <<END
{"job_id":"local-1","job_name":"digits","under_slurm":false,"framework":"pytorch","version":"2.1","world_size":2,"asked":{"min":2,"max":2},
 "gpus_per_learner":2,"gpu_type":"","cpus_per_learner":4,"placement":"block","command":["python","train.py","--api-key","sentinel-1"],
 "work_dir":"/home/bob","job_dir":"$PWD/$1","checkpoint":{"path":"/scratch/ck","keep":3},"restarts":3,"tier":"auto",
 "environment":{"WANDB_API_KEY":"sentinel-2","PLAIN":"sentinel-3"},"kept":["OTHER=sentinel-4"],
 "nodes":[{"name":"n1","learners":1,"gpus":2},{"name":"n2","learners":1,"gpus":2}],
 "learners":[{"rank":0,"node":"n1","gpus":[0,1],"environment":{"X":"sentinel-5"}},{"rank":1,"node":"n2","gpus":[0,1]}]}
END
  printf 'reading data\nHF_TOKEN=sentinel-6\nKeyError: lr\n' >"$1/logs/attempt-1/learner-1.log"
  printf 'step 300\n' >"$1/logs/attempt-2/learner-0.log"
}

@test "a page tells what ran, how it went, what failed with its last lines, and how to run it again, from the job directory alone" {
  make_job job
  run "$dlctl" report job -o page.html
  [ "$status" -eq 0 ]
  [ "$output" = page.html ]
  alone page.html
  for text in 'pytorch 2.1' 'python train.py --api-key …' '2 learners with 2 GPUs each, on n\[1-2\]' '2026-09-10 00:26:40' 'paused by dlctl' \
    'restart 1 of 3' "KeyError: 'lr'" 'The last lines of learner 1 in attempt 1' 'reading data$' 'used 31 % of 4 GPUs' '<td class="n">300</td>' \
    'dlckpt ls /scratch/ck' 'dlrun --framework pytorch:2.1 --learners 2 --gpus 2 --checkpoint /scratch/ck,keep=3' 'No metrics of the training were found'; do
    grep -qE -- "$text" page.html || { echo "missing: $text" >&2; false; }
  done
  lacks page.html sentinel
  [ "$(stat -c %a page.html)" = "$(printf %o $((0666 & ~$(umask))))" ]
}

@test "a run without Slurm has its curves and its use on the page, also while it runs" {
  "$dlrun" --job-dir "$PWD/job" -- sh -c 'for i in 1 2 3 4; do echo "step $i: loss=0.$i"; done; until [ -e over ]; do sleep 0.1; done' >out.txt 2>&1 3>&- &
  wait_grep 'loss' job/metrics/attempt-1/learner-0.series
  "$dlctl" report job -o - >page.html
  alone page.html
  grep -qF '<span class="badge"><i class="processing"></i>PROCESSING</span>' page.html
  grep -qF '<figcaption>loss</figcaption>' page.html
  touch over
  wait
  "$dlctl" report job -o - >page.html
  alone page.html
  grep -qF 'COMPLETED</span>' page.html
  grep -qE '<p>used .*CPU' page.html
  grep -qF 'The last lines of learner 0 in attempt 1' page.html
}

@test "a job directory that another user has closed is not called one that is none" {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to be another user"
  other=(setpriv --reuid 61097 --regid 61097 --clear-groups "$dlctl")
  "${other[@]}" --version >/dev/null 2>&1 || skip "another user cannot reach the build folder"
  make_job job
  # Nobody else may look into the folders of a test.
  place=$(mktemp -d /tmp/dl-report.XXXXXX)
  chmod 0755 "$place"
  mv job "$place"
  chmod 0700 "$place/job"
  run "${other[@]}" report "$place/job" -o -
  rm -rf "$place"
  [ "$status" -eq 4 ]
  contains "$output" "^dlctl report: '$place/job' belongs to another user, who alone may look into it; allowed: "
}

@test "without -o the file is called after the job and lies in the current folder" {
  mkdir elsewhere
  make_job dl-local-1
  cd elsewhere
  run "$dlctl" report ../dl-local-1
  [ "$status" -eq 0 ]
  [ "$output" = dl-report-local-1.html ]
  alone dl-report-local-1.html
}

@test "a file that cannot be written is refused with one sentence, and nothing is left of it" {
  make_job job
  mkdir folder
  mkfifo pipe
  ln -s nowhere/page.html dangling
  for file in folder pipe dangling missing/page.html /dev/null; do
    run "$dlctl" report job -o "$file"
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 1 ]
    contains "$output" "^dlctl report: $file cannot be written: [^:]+; name another file$"
  done
  [ -c /dev/null ]
  [ -p pipe ]
  [ -L dangling ]
  [ -z "$(find . -name '*.tmp-*')" ]
  # A link to a file stays a link.
  echo old >real.html
  ln -s real.html link.html
  "$dlctl" report job -o link.html
  [ -L link.html ]
  alone real.html
  if [ -c /dev/full ]; then
    run sh -c '"$0" report job -o - >/dev/full' "$dlctl"
    [ "$status" -eq 1 ]
    [ "$output" = 'dlctl report: standard output: No space left on device' ]
  fi
}

@test "nothing that a hostile program wrote reaches the page as it is, and links lead nowhere" {
  make_job job
  echo sentinel-secret >secret
  evil='</pre></svg><script>alert(1)</script><img src=x onerror=alert(1)>'
  printf '%s \033]0;x\007 \xe2\x80\xae \xff\n' "$evil" >>job/logs/attempt-1/learner-1.log
  jq -nc --arg evil "$evil" '{time_ms: 1789000135000, attempt: 2, learner: 1, state: "FAILED", reason: $evil, host: $evil, failure: $evil, code: $evil}' >>job/events.jsonl
  echo '{"torn' >>job/events.jsonl
  jq --arg evil "$evil" '.command = [$evil] | .framework = $evil | .nodes[0].name = $evil | .learners[0].node = $evil | .job_name = $evil
    | .checkpoint.path = $evil | .work_dir = $evil | .warnings = [$evil]' job/plan.json >plan && mv plan job/plan.json
  rm -r job/logs/attempt-2
  mkdir job/logs/attempt-2
  ln -s "$PWD/secret" job/logs/attempt-2/learner-1.log
  mkfifo job/logs/attempt-2/learner-0.log
  timeout 60 "$dlctl" report job -o page.html
  for word in '<script' '<img' sentinel $'\033' $'\007' $'\xe2\x80\xae'; do lacks page.html "$word"; done
  grep -qF '&lt;script&gt;alert(1)' page.html
  grep -qF 'of events.jsonl could not be read' page.html
  grep -qF 'Its log could not be read' page.html
  LC_ALL=C run ! grep -qP '\xff' page.html
}

@test "what is not there is said: an empty job directory's record, a damaged plan, no logs" {
  mkdir -p dl-local-9
  printf '{"time_ms":1789000000000,"attempt":0,"state":"PENDING"}\n' >dl-local-9/events.jsonl
  echo '{"broken' >dl-local-9/plan.json
  run "$dlctl" report dl-local-9 -o page.html
  [ "$status" -eq 0 ]
  alone page.html
  for text in 'plan.json is damaged' 'What the learners used is not known' 'Learners and nodes are not known'; do
    grep -qF -- "$text" page.html || { echo "missing: $text" >&2; false; }
  done
  run -2 "$dlctl" report nowhere
}

@test "a page is no wider than a phone or a desktop, in light and dark" {
  browser=$(command -v chromium-headless-shell || command -v chromium || command -v chromium-browser) || skip "no Chromium (apt-get install chromium-headless-shell)"
  make_job job
  # What does not wrap by itself: a long word in each place.
  word=$(printf 'x%.0s' $(seq 300))
  jq -nc --arg word "$word" '{time_ms: 1789000135000, attempt: 2, learner: 1, state: "FAILED", reason: $word, host: $word, failure: $word, code: $word}' >>job/events.jsonl
  jq --arg word "$word" '.command += [$word] | .work_dir = $word | .nodes[0].name = $word | .learners[0].node = $word' job/plan.json >plan && mv plan job/plan.json
  printf '%s\n' "$word" >>job/logs/attempt-1/learner-1.log
  "$dlctl" report job -o page.html
  for theme in '' --dark; do
    # shellcheck disable=SC2086  # no word where it is empty
    run "$top_srcdir/tests/lib/page_widths.py" $theme "$browser" page.html 320 390 1280
    [ "$status" -eq 0 ]
    [ "$output" = $'320 320 0\n390 390 0\n1280 1280 0' ]
  done
}
