#!/usr/bin/env bats
# Curves of a training in a real terminal, narrow ones, without UTF-8 and without colours, and as a picture.
# shellcheck disable=SC2016  # the scripts of learners expand there
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

bats_require_minimum_version 1.5.0

setup() {
  dlrun_setup
  dlctl=$top_builddir/launcher/ctl/dlctl
  export LC_ALL=C.UTF-8 TERM=xterm-256color
  unset NO_COLOR
}

# run_job DIR SCRIPT
run_job() { "$dlrun" -f generic --job-dir "$PWD/$1" -- sh -c "$2" >"out-$1.txt" 2>&1 || { cat "out-$1.txt" >&2; return 1; }; }
# in_terminal COLUMNSxROWS COMMAND...
in_terminal() { python3 "$top_srcdir/tests/lib/in_terminal.py" "$@"; }
# widest TEXT: the characters of its longest line, without colours.
widest() { printf '%s\n' "$1" | sed 's/\x1b\[[0-9;]*m//g' | wc -L; }

# lacks TEXT PATTERN: in Perl's syntax, by bytes.
lacks() { if LC_ALL=C grep -qP -- "$2" <<<"$1"; then printf 'not expected: %s\nin: %s\n' "$2" "$1" >&2 && return 1; fi; }

@test "the curves of a training that went on stand in the terminal, with its attempts" {
  run_job a 'for i in 0 10 20 30; do echo "step $i: loss=0.$((9 - i / 10)) val_loss: 0.9"; done'
  run_job a 'for i in 20 30 40; do echo "step $i: loss=0.$((6 - i / 10))"; done'
  run in_terminal 60x30 "$dlctl" metrics --plot --name loss a
  [ "$status" -eq 0 ]
  [ "$(widest "$output")" -le 60 ]
  contains "$output" '^loss$'
  contains "$output" '⠤'
  contains "$output" $'^ \033\\[36m⠤⠤\033\\[0m train: last 0.2 at 40, lowest 0.2 at 40,'
  contains "$output" '^ ┆ attempt 2, after: '
  contains "$output" '^ 2 points that later attempts have superseded'
  # All 20 rows that this terminal has room for.
  [ "$(grep -cE '[┤│]' <<<"$output")" -eq 20 ]
}

@test "a narrow terminal, one without UTF-8, and one without colours are drawn into as they are" {
  run_job a 'for i in 1 2 3 4; do echo "step $i: loss=0.$i val_loss: 0.5"; done'
  run in_terminal 24x8 "$dlctl" metrics --plot a
  [ "$status" -eq 0 ]
  [ "$(widest "$output")" -le 24 ]
  LC_ALL=C run in_terminal 100x40 "$dlctl" metrics --plot a
  [ "$status" -eq 0 ]
  lacks "$output" '[^\x00-\x7f]'
  contains "$output" '\+-+\+'
  NO_COLOR=1 run in_terminal 100x40 "$dlctl" metrics --plot a
  lacks "$output" '\x1b'
  contains "$output" '^ \* train: last 0.4 at 4'
  contains "$output" '^ \+ validate: last 0.5 at 4'
  TERM=dumb run in_terminal 100x40 "$dlctl" metrics --plot a
  lacks "$output" '\x1b'
  run in_terminal 100x40 "$dlctl" metrics --plot --marks blocks a
  contains "$output" '[▀▄█▌▐▖▗▘▝]'
  # In a pipe: 80 columns, no colours.
  run "$dlctl" metrics --plot a
  [ "$(widest "$output")" -eq 80 ]
  lacks "$output" '\x1b'
}

@test "several jobs are compared in one picture, which is a file of its own" {
  run_job a 'for i in 1 2 3; do echo "step $i: loss=0.$i"; done'
  run_job b 'for i in 1 2 3; do echo "step $i: loss=0.$((9 - i))"; done'
  run in_terminal 80x24 "$dlctl" metrics --plot a b
  contains "$output" 'job a: last 0.3 at 3'
  contains "$output" 'job b: last 0.6 at 3'
  run "$dlctl" metrics --svg both.svg a b
  [ "$status" -eq 0 ]
  [ -z "$output" ]
  python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' both.svg
  contains "$(cat both.svg)" '>Metrics of jobs a, b</text>'
  contains "$(cat both.svg)" '>job b: last 0.6 at 3, lowest 0.6 at 3, highest 0.8 at 1</text>'
  contains "$(cat both.svg)" 'prefers-color-scheme: dark'
}

@test "a picture replaces no device, pipe or link, as root could" {
  run_job a 'echo "step 1: loss=0.5"'
  mkfifo pipe
  run -1 "$dlctl" metrics --svg pipe a
  [ "$output" = 'dlctl metrics: pipe cannot be written: it is not a regular file; name another file' ]
  [ -p pipe ]
  run -1 "$dlctl" metrics --svg missing/a.svg a
  [ "$output" = 'dlctl metrics: missing/a.svg cannot be written: No such file or directory; name another file' ]
  echo old >real.svg
  ln -s real.svg link.svg
  "$dlctl" metrics --svg link.svg a
  [ -L link.svg ]
  grep -q '</svg>' real.svg
}

# needs_rsvg: leaves the test out where nothing here makes a PNG.
needs_rsvg() { command -v rsvg-convert >/dev/null || skip "there is no rsvg-convert (package librsvg2-bin)"; }

@test "a PNG is the same picture: its size, a light background, its letters, and the colours of its curves" {
  needs_rsvg
  run_job a 'for i in 0 10 20 30; do echo "step $i: loss=0.$((9 - i / 10)) val_loss: 0.9"; done'
  run_job a 'for i in 20 30 40; do echo "step $i: loss=0.$((6 - i / 10))"; done'
  run "$dlctl" metrics --name loss --png a.png a
  [ "$status" -eq 0 ]
  [ -z "$output" ]
  python3 "$top_srcdir/tests/lib/png_colours.py" a.png >colours
  "$dlctl" metrics --name loss --svg a.svg a
  # Two pixels for each of the SVG.
  size=$(grep -oE 'width="[0-9]+" height="[0-9]+"' a.svg | head -n 1 | tr -dc '0-9 ' | awk '{ print 2 * $1, 2 * $2 }')
  [ "$(sed -n 1p colours)" = "$size" ] || { head colours >&2; false; }
  # The paper is white, in the corner and nearly everywhere.
  [ "$(sed -n 2p colours)" = '#ffffff' ]
  [ "$(sed -n 3p colours | cut -d' ' -f1)" = '#ffffff' ]
  # pixels COLOUR: how many there are.
  pixels() { awk -v c="$1" '$1 == c && NF == 2 { n = $2 } END { print n + 0 }' colours; }
  [ "$(pixels '#0072b2')" -ge 1000 ] # train
  [ "$(pixels '#d55e00')" -ge 1000 ] # validate
  [ "$(pixels '#1f2328')" -ge 300 ]  # letters
}

@test "where nothing makes a PNG, or not this one, one sentence says so, and no file is written" {
  run_job a 'echo "step 1: loss=0.5"'
  mkdir none broken
  PATH=$PWD/none run -1 "$dlctl" metrics --png a.png a
  [ "$output" = 'dlctl metrics: a PNG is made by the program rsvg-convert, which is not in PATH; install it (Debian: librsvg2-bin, Fedora and RHEL: librsvg2-tools), or take --svg, which needs no other program' ]
  printf '#!/bin/sh\ncat >/dev/null\necho half a picture\necho "there is no room" >&2\n' >broken/rsvg-convert
  chmod +x broken/rsvg-convert
  PATH=$PWD/broken:$PATH run -1 "$dlctl" metrics --png a.png a
  [ "$output" = "dlctl metrics: $PWD/broken/rsvg-convert made no picture: there is no room; --svg needs no other program" ]
  [ ! -e a.png ]
}

@test "a PNG is written with the same care: no device, pipe or folder is replaced, and a link stays one" {
  needs_rsvg
  run_job a 'echo "step 1: loss=0.5"'
  mkfifo pipe
  run -1 "$dlctl" metrics --png pipe a
  [ "$output" = 'dlctl metrics: pipe cannot be written: it is not a regular file; name another file' ]
  [ -p pipe ]
  run -1 "$dlctl" metrics --png cat a
  [ "$output" = 'dlctl metrics: cat cannot be written: it is a folder; name another file' ]
  run -1 "$dlctl" metrics --png missing/a.png a
  [ "$output" = 'dlctl metrics: missing/a.png cannot be written: No such file or directory; name another file' ]
  echo old >real.png
  ln -s real.png link.png
  "$dlctl" metrics --png link.png a
  [ -L link.png ]
  python3 "$top_srcdir/tests/lib/png_colours.py" real.png >/dev/null
}

@test "names that a hostile program chose reach neither the terminal nor the picture as they are" {
  cat >train.py <<'PY'
import dl
for step in range(3):
    dl.metric({"</text><script>alert(1)</script>\x1b]0;x\x07\u202e loss": step / 3}, step=step)
PY
  "$dlrun" -f generic --job-dir "$PWD/a" -- env PYTHONPATH="$top_srcdir/launcher/python" python3 "$PWD/train.py" >out.txt 2>&1 || { cat out.txt >&2; false; }
  NO_COLOR=1 run in_terminal 80x24 "$dlctl" metrics --plot a
  [ "$status" -eq 0 ]
  lacks "$output" '\x1b|\x07|\xe2\x80\xae'
  "$dlctl" metrics --svg a.svg a
  python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' a.svg
  lacks "$(cat a.svg)" '<script|\x1b|\xe2\x80\xae'
  grep -q '&lt;script&gt;alert(1)' a.svg
}

@test "forms of output that exclude each other are refused" {
  run_job a 'echo "step 1: loss=0.5"'
  run -2 "$dlctl" metrics --plot --svg x.svg a
  contains "$output" '^dlctl metrics: --plot and --svg exclude each other; allowed: one of them$'
  run -2 "$dlctl" metrics --svg x.svg --png x.png a
  contains "$output" '^dlctl metrics: --svg and --png exclude each other; allowed: one of them$'
  run -2 "$dlctl" metrics --marks blocks a
  run -2 "$dlctl" metrics --plot --marks colours a
  contains "$output" 'braille, blocks(,| or) ascii'
  run "$dlctl" metrics --plot --name loss a
  [ "$status" -eq 0 ]
}

@test "what root starts with the rights of a job's user has neither root's terminal nor its secrets" {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to take another user's rights"
  local place
  run_job a 'echo "step 1: loss=0.5"'
  place=$(mktemp -d /tmp/dl-metrics.XXXXXX)
  mkdir "$place/bin"
  echo PLANTED >planted
  # In the place of rsvg-convert: it can do what whoever takes that over can.
  printf '#!/bin/sh\n{ env; id -u; if (: </dev/tty) 2>/dev/null; then echo a terminal; fi; cat <&7; } >"%s/seen"\n' "$place/bin" >"$place/bin/rsvg-convert"
  mv a "$place"
  chown -R 61097:61097 "$place"
  chmod -R go+rX "$place"
  chmod +x "$place/bin/rsvg-convert"
  # In a terminal of its own, which script makes.
  PLANTED=secret script -qec "PATH=$place/bin:$PATH $(printf %q "$dlctl") metrics --png $place/a.png $place/a 7<planted" /dev/null </dev/null >said 2>&1 || true
  cp "$place/bin/seen" . || { cat said >&2; rm -rf "$place"; false; }
  run "$dlctl" export "$place/a" --wandb "$place/out"
  rm -rf "$place"
  [ "$status" -eq 4 ]
  grep -qx 61097 seen
  run ! grep -E 'PLANTED|a terminal' seen
}
