#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws story.svg, the picture in README.md, from story.json: what ./quickstart recorded of two jobs.

    man/guide/story.py                  draws the picture again from story.json
    man/guide/story.py --record RUN     first takes story.json from the folder of a quick start: build/quickstart.d/run
"""
import json
import os
import sys
import time
from xml.sax.saxutils import escape

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH, LEFT, ROW, BAR, TOP = 860, 70, 18, 15, 92
STYLE = """
  text { font: 13px system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif; fill: #1f2328; }
  .quiet { fill: #59636e; font-size: 12px; }
  .on { fill: #ffffff; font-weight: 600; }
  .free { fill: #818b98; fill-opacity: .12; }
  .borrower { fill: #0969da; } .ending { fill: #0969da; fill-opacity: .4; } .guaranteed { fill: #bc4c00; }
  .saved { fill: #ffffff; stroke: #1f2328; stroke-width: 1.2; }
  .line { stroke: #59636e; stroke-width: 1; stroke-dasharray: 3 2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .quiet { fill: #9198a1; } .on { fill: #ffffff; } .line { stroke: #9198a1; }
  }
"""


def record(run):
    """The jobs of the quick start in the order of their ids: the training alone, the same as a borrower, and the guaranteed job."""
    folders = sorted((name for name in os.listdir(run) if name.startswith("dl-")), key=lambda name: int(name[3:]))
    jobs = []
    for name in folders[-2:]:
        with open(os.path.join(run, name, "events.jsonl"), encoding="utf-8") as file:
            jobs.append([{key: value for key, value in json.loads(line).items() if key != "command"} for line in file])
    # The quick start writes the batch script of the guaranteed job right before it submits it.
    submitted = int(os.stat(os.path.join(run, "urgent.sh")).st_mtime * 1000)
    return {"recorded": time.strftime("%Y-%m-%d", time.gmtime(submitted / 1000)), "guaranteed_submitted_ms": submitted,
            "borrower": jobs[0], "guaranteed": jobs[1]}


def intervals(events, zero):
    """From when until when each learner ran in each attempt: (attempt, host, place on the host, start, end) in seconds."""
    running, hosts, found = {}, {}, []
    for event in events:
        if "learner" not in event:
            continue
        key = (event["attempt"], event["learner"])
        if event["state"] == "PROCESSING":
            running[key] = event
            hosts.setdefault((event["attempt"], event["host"]), []).append(event["learner"])
        else:
            begun = running.pop(key)
            place = sorted(hosts[(event["attempt"], event["host"])]).index(event["learner"])
            found.append((event["attempt"], begun["host"], place, (begun["time_ms"] - zero) / 1000, (event["time_ms"] - zero) / 1000))
    return found


def when(events, zero, state, attempt=1, reason=""):
    """Seconds of the first such change of the whole job, and the event."""
    for event in events:
        if "learner" not in event and event["state"] == state and event["attempt"] == attempt and reason in event.get("reason", ""):
            return (event["time_ms"] - zero) / 1000, event
    raise ValueError("no event %s %s of attempt %d" % (state, reason, attempt))


def draw(story):
    zero = story["guaranteed_submitted_ms"]
    borrower, guaranteed = story["borrower"], story["guaranteed"]
    saves = [((event["time_ms"] - zero) / 1000, event["step"]) for event in borrower if event.get("reason", "").startswith("saved at")]
    given_back, pending = when(borrower, zero, "PENDING")
    step = pending["step"]
    saved = next(at for at, of in saves if of == step)
    runs, again = when(guaranteed, zero, "PROCESSING")[0], when(borrower, zero, "PROCESSING", 2)[0]
    begin, end = when(borrower, zero, "DEPLOY")[0], when(borrower, zero, "COMPLETED", 2)[0]
    first, last = 5 * int(begin // 5), 5 * int(end // 5 + 1)
    scale = (WIDTH - LEFT - 10) / (last - first)

    def x(seconds):
        return LEFT + (seconds - first) * scale

    def text(at, y, words, kind="", anchor="start"):
        return '<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>' % (at, y, kind, anchor, escape(words))

    def bar(kind, y, start, stop):
        return '<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d" rx="2"/>' % (kind, x(start), y, max(1.0, (stop - start) * scale), BAR)

    hosts = sorted({event["host"] for event in guaranteed if "host" in event})
    rows = {(host, place): TOP + (2 * index + place) * ROW for index, host in enumerate(hosts) for place in (0, 1)}
    bottom = TOP + len(rows) * ROW
    out = []
    for (host, place), y in rows.items():
        out.append(text(LEFT - 10, y + 12, "%s GPU %d" % (host, place), "quiet", "end"))
        out.append(bar("free", y, first, last))
    for attempt, host, place, start, stop in intervals(borrower, zero):
        y = rows[(host, place)]
        if attempt == 1:
            out += [bar("ending", y, saved, stop), bar("borrower", y, start, saved)]
        else:
            out.append(bar("borrower", y, start, stop))
    out += [bar("guaranteed", rows[(host, place)], start, stop) for _, host, place, start, stop in intervals(guaranteed, zero)]
    middle = TOP + 2 * ROW
    for at, words in (((begin + saved) / 2, "borrower, train steps 1 to %d" % step), ((again + end) / 2, "borrower, train steps %d to %d" % (step + 1, saves[-1][1]))):
        out.append(text(x(at), middle - 8, words, "on", "middle"))
    for at, of in saves:
        out.append('<path class="saved" d="M%.1f %dl6 6l-6 6l-6 -6z"/>' % (x(at), middle + 4))
        if of != step:
            out.append(text(x(at) - 9, middle + 15, str(of), "on", "end"))
    marks = [(0, "0 s: a guaranteed job is submitted", "end"),
             (saved, "%.1f s: the borrower has saved at train step %d" % (saved, step), "start"),
             (given_back, "%.1f s: its learners have ended; their GPUs are free" % given_back, "start"),
             (runs, "%.1f s: the guaranteed job runs on all eight GPUs" % runs, "start"),
             (again, "%.1f s: the borrower runs again, from train step %d" % (again, step), "start")]
    for level, (at, words, anchor) in enumerate(marks):
        y = 12 + 17 * max(0, level - 1)
        out.append('<line class="line" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>' % (x(at), y - 8, x(at), bottom))
        out.append(text(x(at) + (5 if anchor == "start" else -5), y + 2, words, "", anchor))
    for tick in range(first - first % -10, last + 1, 10):
        out.append(text(x(tick), bottom + 16, "%d s" % tick, "quiet", "middle"))
    out.append(text(LEFT, bottom + 36, "◇ checkpoint, with its train step. Pale: the state is saved, the processes are ending.", "quiet"))
    out.append(text(LEFT, bottom + 52, "Recorded with ./quickstart on %s; one busy machine of two cores plays the four nodes." % story["recorded"], "quiet"))
    return "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">' % (WIDTH, bottom + 60, WIDTH, bottom + 60),
        "<title>A job on borrowed GPUs saves, gives them back, and resumes</title>", "<style>" + STYLE + "</style>", *out, "</svg>", ""])


def main():
    story_file = os.path.join(HERE, "story.json")
    if len(sys.argv) == 3 and sys.argv[1] == "--record":
        with open(story_file, "w", encoding="utf-8") as file:
            json.dump(record(sys.argv[2]), file, indent=1)
            file.write("\n")
    elif len(sys.argv) != 1:
        sys.exit(__doc__)
    with open(story_file, encoding="utf-8") as file:
        picture = draw(json.load(file))
    with open(os.path.join(HERE, "story.svg"), "w", encoding="utf-8") as file:
        file.write(picture)


if __name__ == "__main__":
    main()
