# SPDX-License-Identifier: Apache-2.0
"""What the benches share: targets, order of the runs, records, tables and plots. Nothing is measured here."""
import json
import os
import sys
import time
import xml.dom.minidom

import support

BENCH = os.path.join(support.SOURCE, "tests", "bench")
sys.path[:0] = [os.path.join(BENCH, "lib"), os.path.join(BENCH, "checkpoint")]
import fragments  # noqa: E402
import recording  # noqa: E402
import states  # noqa: E402
from dlbench import disk, machine, record, rows, samples, svg  # noqa: E402
from groups.unchanged import Unchanged  # noqa: E402
from groups.verify import Verify  # noqa: E402


def row(ours, other, target, note=""):
    return rows.Row("a.b", "what", "peer", "GB/s", target, samples.Series(ours), samples.Series(other) if other else None, note)


class Rows(support.Case):
    def test_ratio_is_that_of_the_medians_and_decides_the_target(self):
        self.assertEqual(row([1, 9, 2], [1, 1, 4], ">= 2").ratio, 2)
        for target, ratio, met in ((">= 0.9", 0.9, True), (">= 0.9", 0.89, False), ("<= 1.1", 1.1, True), ("<= 1.1", 1.2, False)):
            self.assertEqual(row([ratio], [1], target).met, met)

    def test_without_a_target_or_a_peer_nothing_is_met_or_missed(self):
        self.assertIsNone(row([1], [1], None).met)
        self.assertIsNone(row([1], None, ">= 1", "not installed").met)
        self.assertIn("not installed", rows.text_table([row([1], None, ">= 1", "not installed")]))

    def test_a_malformed_target_is_refused(self):
        with self.assertRaises(ValueError):
            rows.holds("about 3", 3)

    def test_numbers_have_three_digits_and_no_exponent(self):
        for value, text in ((0, "0"), (1234.6, "1235"), (12.34, "12.3"), (1.234, "1.23"), (0.1234, "0.123"),
                            (0.0123, "0.0123")):
            self.assertEqual(rows.number(value), text)


class Samples(support.Case):
    def test_subjects_take_turns_in_other_orders_and_the_warm_up_does_not_count(self):
        order = []

        def subject(name):
            def once(number):
                order.append(name)
                return {"time": number}
            return once

        found = samples.alternate({name: subject(name) for name in "abc"}, 5, 1, lambda *_: None)
        self.assertEqual(found["time/a"], [1, 2, 3, 4, 5])
        rounds = ["".join(order[i:i + 3]) for i in range(0, 18, 3)]
        self.assertTrue(all(sorted(one) == list("abc") for one in rounds))
        self.assertGreaterEqual(len(set(rounds)), 5)

    def test_what_spreads_widely_is_measured_more_often(self):
        values = {"steady": iter([10.0] * 20), "jumpy": iter([1.0, 9.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0] * 2)}
        measures = {name: (lambda _number, name=name: {"save": next(values[name])}) for name in values}
        found = samples.alternate(measures, 3, 1, lambda *_: None, runs_if_wide=7)
        self.assertEqual([len(found["save/" + name]) for name in ("steady", "jumpy")], [7, 7])
        found = samples.alternate({"steady": measures["steady"]}, 3, 0, lambda *_: None, runs_if_wide=7)
        self.assertEqual(len(found["save/steady"]), 3)

    def test_what_is_always_zero_does_not_spread(self):
        found = samples.alternate({"none": lambda _number: {"lost": 0.0}}, 3, 0, lambda *_: None, runs_if_wide=7)
        self.assertEqual(len(found["lost/none"]), 3)


class Records(support.Case):
    def test_a_record_is_found_again_unless_it_is_of_something_else_or_old(self):
        path = os.path.join(self.folder, "r.json")
        record.Record(path, "k", 1000).put("group", {"values": {}})
        self.assertIsNotNone(record.Record(path, "k", 2000).get("group"))
        self.assertIsNone(record.Record(path, "other", 2000).get("group"))
        self.assertIsNone(record.Record(path, "k", 1000000).get("group"))
        with open(path, "w") as file:
            file.write("{")
        self.assertIsNone(record.Record(path, "k", 2000).get("group"))

    def test_a_fragment_is_replaced_and_the_rest_left_alone(self):
        path = os.path.join(self.folder, "README.md")
        with open(path, "w") as file:
            file.write("a\n<!-- x begin: made by it -->\nold\n\nold\n<!-- x end -->\nb\n")
        record.replace_fragment(path, "x", "new\n")
        with open(path) as file:
            self.assertEqual(file.read(), "a\n<!-- x begin: made by it -->\nnew\n<!-- x end -->\nb\n")
        with self.assertRaises(ValueError):
            record.replace_fragment(path, "y", "new")


class Recording(support.Case):
    """Groups recorded one by one, in a folder of their own."""

    def recorded(self):
        return recording.Results(os.path.join(self.folder, "results"), self.groups)

    def setUp(self):
        super().setUp()
        state = states.State("s", "1 GiB", 1, 1 << 30)
        self.groups = [Verify(state), Unchanged(state)]
        os.makedirs(os.path.join(self.folder, "man", "guide"))
        for path in ("README.md", os.path.join("man", "guide", "benchmarks.md")):
            with open(os.path.join(self.folder, path), "w") as file:
                file.write("<!-- bench-checkpoint begin -->\n<!-- bench-checkpoint end -->\n")

    def found(self, verify_s, **facts):
        return {"values": {"verify/ours": [verify_s] * 5, "verify/fio-read": [1.0] * 5}, "notes": {}, "bytes": 1e9,
                "facts": {"date": "2026-01-02", "machine": "a box", "load_before": 0.1, "others": 0.0, **facts}}

    def test_a_group_takes_the_place_of_its_former_rows_and_the_others_stay(self):
        self.recorded().take({})
        results = self.recorded()
        results.take({"verify-s": self.found(2.0), "unchanged-s": dict(self.found(1.0), values={"written/ours": [1.0], "written/without": [2.0]})})
        results.publish(self.folder)
        results = self.recorded()
        results.take({"verify-s": self.found(0.5, date="2026-01-09", others=0.7)})
        results.publish(self.folder)
        ratios = {row.name: row.ratio for row in self.recorded().rows()}
        self.assertEqual(ratios["verify-s.verify-ours.fio-read"], 2.0)
        self.assertEqual(ratios["unchanged-s.written-ours.the same, all written"], 0.5)
        with open(os.path.join(self.folder, "results", "table.md")) as file:
            table = file.read()
        self.assertIn("Measured from 2026-01-02 to 2026-01-09, on a box. Other work used up to 0.7 of its cores meanwhile", table)
        self.assertIn("- verify-s (dlckpt verify of 1 GiB): 2026-01-09, medians of 5, other work used 0.70 cores", table)
        self.assertIn("- unchanged-s (1/16 of 1 GiB trained, the rest frozen): 2026-01-02", table)

    def test_rows_whose_samples_were_not_kept_stay_with_their_runs(self):
        results = self.recorded()
        results.take({"verify-s": self.found(2.0)})
        results.publish(self.folder)
        os.unlink(os.path.join(self.folder, "results", "measured.json"))
        row = self.recorded().rows()[0]
        self.assertEqual((row.ratio, row.ours.runs, row.ours.low), (0.5, 5, 0.5))

    def test_what_others_use_of_the_cores_does_not_count_what_this_process_uses(self):
        others = machine.Others()
        began, used = time.monotonic(), time.process_time()
        while time.process_time() - used < 0.3:  # on a busy machine that takes longer
            pass
        cores = others.cores()
        own = 0.3 / (time.monotonic() - began)
        self.assertLessEqual(cores, (os.cpu_count() or 1) - own * 0.7)


class Fragments(support.Case):
    def test_the_guide_gets_all_rows_with_a_target_and_the_readme_six_of_them_that_were_recorded(self):
        with open(os.path.join(BENCH, "checkpoint", "results", "rows.json")) as file:
            recorded = {one["name"]: one for one in json.load(file)}
        self.assertEqual(len(set(fragments.IN_README) & set(recorded)), 6)
        made = [rows.Row(one["name"], one["name"], one["peer"], one["unit"], one["target"], samples.Series([one["ours"]]), samples.Series([one["other"]]))
                for one in recorded.values() if one["ratio"] is not None]
        readme, guide = fragments.readme_text(made), fragments.guide_text("Measured now.", made)
        shown, missed = guide.count(", met |") + guide.count("**missed** |"), guide.count("**missed** |")
        self.assertEqual(readme.count("\n| "), 6)
        self.assertGreater(shown, 50)
        self.assertIn("%d of %d targets are met, %d are missed" % (shown - missed, shown, missed), readme)


class Plots(support.Case):
    def test_a_picture_is_well_formed_and_shows_every_label(self):
        series = samples.Series([1.0, 2.0, 3.0])
        panels = [svg.Bars("Title <1>", "GB/s", [svg.Bar("we & you", series, "ours")]),
                  svg.Lines("Lines", "x", "y", [svg.Line("line", [("3", series), ("10", series)], 0)])]
        text = svg.picture(panels, "for those who do not see", "caption")
        shown = "".join(node.data for node in walk(xml.dom.minidom.parseString(text)) if node.nodeType == node.TEXT_NODE)
        for part in ("Title <1>", "we & you", "GB/s", "line", "caption", "prefers-color-scheme: dark"):
            self.assertIn(part, shown)

    def test_ticks_are_round_and_reach_the_highest_value(self):
        for high in (0.003, 0.9, 1, 4.2, 97, 1234):
            ticks = svg.nice_ticks(high)
            self.assertEqual(ticks[0], 0)
            self.assertGreaterEqual(ticks[-1], high * 0.999)
            self.assertTrue(4 <= len(ticks) <= 8, ticks)


class PageCache(support.Case):
    def test_a_file_that_was_made_cold_has_no_page_in_the_cache(self):
        if machine.in_memory(self.folder):
            self.skipTest("the temporary folder is in memory")
        path = os.path.join(self.folder, "file")
        with open(path, "wb") as file:
            file.write(os.urandom(1 << 20))
        disk.make_cold(path)
        self.assertEqual(disk.resident_bytes(path), 0)
        with open(path, "rb") as file:
            file.read()
        self.assertGreater(disk.resident_bytes(path), 0)


def walk(node):
    yield node
    for child in node.childNodes:
        yield from walk(child)


if __name__ == "__main__":
    support.main()
