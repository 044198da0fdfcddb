# SPDX-License-Identifier: Apache-2.0
"""What `run --record` writes into the documents between the markers `bench-checkpoint`: every row with a target into
man/guide/benchmarks.md, six of them into README.md."""
from dlbench.rows import markdown_table

IN_README = (
    "blocked-1g-large.blocked-ours.memcpy",
    "durable-1g-large.save-ours.fio-overwrite",
    "durable-1g-large.save-ours.torch",
    "durable-1g-large.save-ours.dcp",
    "durable-1g-large.load-ours.fio-read",
    "training.seconds-async-10.torch",
)


def with_targets(rows):
    return [row for row in rows if row.target and row.ratio is not None]


def guide_text(about, rows):
    return ("![Saving, loading, blocked time and training speed beside others](checkpoints.svg)\n\n%s Medians of five runs in turn, of nine where they spread widely; "
            "fsync included, page cache cold for loading.\n\n%s" % (about, markdown_table(with_targets(rows))))


def readme_text(rows):
    shown = with_targets(rows)
    missed = sum(1 for row in shown if row.met is False)
    return ("%s\n\n%d of %d targets are met, %d are missed: [all rows](man/guide/benchmarks.md)." % (
        markdown_table([row for row in rows if row.name in IN_README]), len(shown) - missed, len(shown), missed))
