#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes top.svg, job.svg, curve.svg and report.png, the pictures of README.md and researchers.md, from trainings that it runs here.

    man/guide/pictures.py BUILD [--out DIR] [--steps N]

BUILD is a build folder. It trains the example of PyTorch three times with dlrun, without Slurm: one is paused and goes on, one has
another seed, one fails. Meanwhile it takes what `dlctl top` draws on a terminal. Needs Debian's PyTorch, and Chromium for report.png.
"""
import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import time
from xml.sax.saxutils import escape

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(HERE, "..", ".."))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))

from on_terminal import Command, Screen  # noqa: E402
from page_widths import Browser  # noqa: E402

WORK = "/tmp/slurm-dl-pictures"  # its name is on the pictures
WIDTH, HEIGHT, MARGIN = 7.8, 17, 14  # of a character, in pixels
COLOURS = {"": "#e6edf3", "2": "#9198a1", "31": "#ff7b72", "32": "#3fb950", "33": "#d29922", "34": "#58a6ff", "35": "#bc8cff", "36": "#39c5cf"}


class Coloured(Screen):
    """A terminal that remembers how each character was to be shown."""

    def resize(self, columns, rows):
        super().resize(columns, rows)
        self.styles, self.style = {}, frozenset()

    def put(self, character):
        if character >= " ":
            self.styles[self.row, self.column] = self.style
        super().put(character)

    def sequence(self, match):
        numbers, final = match.group(1) or "", match.group(2)
        if final == "m":
            for number in numbers.split(";"):
                self.style = frozenset() if number in ("", "0") else self.style | {number}
            return
        if final in "JK":
            self.styles = {place: style for place, style in self.styles.items() if final == "K" and place[0] != self.row}
        super().sequence(match)

    def picture(self, title):
        """The terminal as SVG: dark, as most terminals are, whatever the page around it is."""
        rows = len(self.text().rstrip("\n").split("\n"))
        width, height = self.columns * WIDTH + 2 * MARGIN, rows * HEIGHT + 2 * MARGIN
        out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img">' % (width, height, width, height),
               "<title>%s</title>" % escape(title),
               "<style>text { font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; }</style>",
               '<rect width="100%" height="100%" rx="6" fill="#0d1117"/>']
        for row in range(rows):
            begin = 0
            while begin < self.columns:
                style = self.styles.get((row, begin), frozenset())
                end = begin
                while end < self.columns and self.styles.get((row, end), frozenset()) == style:
                    end += 1
                out += self.run(row, begin, "".join(self.cells[row][begin:end]), style)
                begin = end
        return "\n".join(out + ["</svg>", ""])

    def run(self, row, column, text, style):
        x, y, span = MARGIN + column * WIDTH, MARGIN + row * HEIGHT, len(text) * WIDTH
        colour = next((COLOURS[code] for code in sorted(style, reverse=True) if code in COLOURS), COLOURS[""])
        if "7" in style:
            yield '<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>' % (x, y, span, HEIGHT, colour)
            colour = "#0d1117"
        # Each word has its place: fonts differ in how wide blanks and dots are.
        for word in re.finditer(r"\S+", text):
            yield '<text x="%.1f" y="%d" fill="%s"%s textLength="%.1f">%s</text>' % (
                x + word.start() * WIDTH, y + 13, colour, ' font-weight="bold"' if "1" in style else "", len(word.group()) * WIDTH,
                escape(word.group()))


class Runs:
    def __init__(self, build, steps):
        self.dlrun, self.dlctl = os.path.join(build, "launcher", "dlrun"), os.path.join(build, "launcher", "ctl", "dlctl")
        self.steps = steps
        entries = sorted(entry.path for entry in os.scandir(os.path.join(TOP, "frameworks")) if entry.is_dir())
        with open("dl.toml", "w", encoding="utf-8") as file:
            file.write("[frameworks]\ncatalogue = %s\n" % json.dumps(entries))
        python = os.path.join(TOP, "checkpoint", "python")
        os.environ.update(DL_CONFIG=os.path.abspath("dl.toml"), LC_ALL="C.UTF-8", TERM="xterm-256color", OMP_NUM_THREADS="1", USE_LIBUV="0",
                          DLCKPT_LIBRARY=os.path.join(build, "checkpoint", ".libs", "libdlckpt.so.1"), PYTHONPATH=python, TZ="UTC",
                          PYTHONDONTWRITEBYTECODE="1", PYTHONWARNINGS="ignore")
        shutil.copy(os.path.join(TOP, "frameworks", "pytorch", "example", "train_digits.py"), "train.py")

    def start(self, name, learners, *more):
        words = [self.dlrun, "--framework", "pytorch", "--learners", str(learners), "--job-dir", name, "--checkpoint", name + "-ck,every=100steps",
                 "--", "/usr/bin/python3", "train.py", *more]
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def until(self, name, step, limit=300):
        """Waits until the job has made this train step."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            said = subprocess.run([self.dlctl, "status", "--json", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
            if said and (json.loads(said)[0]["step"] or 0) >= step:
                return
            time.sleep(0.3)
        sys.exit("pictures.py: the training %s does not come to train step %d" % (name, step))


def take_top(runs, out):
    command = Command(112, 36, [runs.dlctl, "top", "digits", "other-seed", "no-data"])
    command.screen = Coloured(112, 36)
    try:
        command.step(r"see ^> digits .*PROCESSING .*\dm\d\ds|^> digits .*PROCESSING .* \d+s ")
        command.step(r"see no-data .*FAILED")
        write(out, "top.svg", list_alone(command.screen).picture("dlctl top: three trainings, with state, train step, speed, loss and the next save"))
        command.step("type \\r")
        command.step("see last lines of learner 0")
        write(out, "job.svg", command.screen.picture("dlctl top: one of them, with its curve, its last lines and what happened"))
        command.step("type qq")
        command.step("ends 0")
    finally:
        if not command.has_ended():
            os.kill(command.pid, 9)
            os.waitpid(command.pid, 0)


def list_alone(screen):
    """Without the empty lines between the jobs and the last line, which names the keys."""
    lines = screen.text().rstrip("\n").split("\n")
    jobs = max(row for row in range(len(lines) - 1) if lines[row].strip())
    short = Coloured(screen.columns, jobs + 3)
    kept = list(range(jobs + 1)) + [jobs + 1, len(lines) - 1]
    for row, of in enumerate(kept):
        short.cells[row] = list(screen.cells[of])
        short.styles.update({(row, column): style for (at, column), style in screen.styles.items() if at == of})
    return short


def write(out, name, text):
    with open(os.path.join(out, name), "w", encoding="utf-8") as file:
        file.write(text)


def take_report(runs, out):
    program = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))), None)
    if program is None:
        sys.exit("pictures.py: there is no Chromium for report.png; apt-get install chromium-headless-shell")
    subprocess.run([runs.dlctl, "report", "digits", "-o", "report.html"], check=True, stdout=subprocess.DEVNULL)
    browser = Browser(program, os.path.abspath("browser"))
    try:
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.call("Page.enable")
        browser.call("Emulation.setDeviceMetricsOverride", width=960, height=1110, deviceScaleFactor=1, mobile=False)
        browser.events.clear()
        browser.call("Page.navigate", url="file://" + os.path.abspath("report.html"))
        browser.wait_for("Page.loadEventFired")
        shot = browser.call("Page.captureScreenshot", format="png", clip={"x": 0, "y": 0, "width": 960, "height": 1110, "scale": 1})
    finally:
        browser.end()
    with open(os.path.join(out, "report.png"), "wb") as file:
        file.write(base64.b64decode(shot["data"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--out", default=HERE)
    parser.add_argument("--steps", type=int, default=600)
    chosen = parser.parse_args()
    build, out = os.path.abspath(chosen.build), os.path.abspath(chosen.out)
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    os.chdir(WORK)
    runs = Runs(build, chosen.steps)
    training = ("--steps", str(chosen.steps), "--step-delay", "0.05")
    first = runs.start("digits", 2, *training)
    other = runs.start("other-seed", 1, *training, "--seed", "7")
    try:
        runs.until("digits", chosen.steps // 2)
        subprocess.run([runs.dlctl, "pause", "digits"], check=True, stdout=subprocess.DEVNULL)
        first.wait()
        first = runs.start("digits", 2, *training)
        runs.start("no-data", 1, "--data", "/data/digits").wait()
        runs.until("digits", chosen.steps * 3 // 4)
        take_top(runs, out)
        for one in (first, other):
            one.wait()
        subprocess.run([runs.dlctl, "metrics", "digits", "other-seed", "--name", "loss", "--svg", os.path.join(out, "curve.svg")], check=True,
                       stdout=subprocess.DEVNULL)
        take_report(runs, out)
    finally:
        for one in (first, other):
            if one.poll() is None:
                one.terminate()
                one.wait()
    os.chdir("/")
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
