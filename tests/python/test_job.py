# SPDX-License-Identifier: Apache-2.0
"""The loop: what is saved when, how a job stops, and what its environment says. NumPy alone."""
import json
import os
import signal
import threading
import time

import support
import numpy as np

import dlckpt


def saved_steps(dir):
    """Train steps with a committed checkpoint."""
    return sorted(int(name.split("-")[1].split(".")[0]) for name in os.listdir(dir) if name.startswith("step-"))


class Loop(support.Case):
    def job(self, a=None, **options):
        options.setdefault("dir", self.dir)
        return dlckpt.attach(arrays={"a": np.zeros(2) if a is None else a}, **options)

    def test_without_a_directory_training_runs_and_one_sentence_says_so(self):
        job = self.job(dir=None)
        self.assertEqual(list(job.steps(3)), [0, 1, 2])
        job.save()
        self.assertEqual(len(self.said), 1)
        self.saying("training without saving")

    def test_the_loop_runs_what_is_left_and_saves_at_its_end(self):
        a = np.zeros(2)
        for _ in self.job(a).steps(4):
            a += 1
        b = np.zeros(2)
        job = self.job(b)
        self.assertEqual((job.restored, job.train_step, b.tolist()), (True, 4, [4, 4]))
        self.assertEqual(list(job.steps(6)), [4, 5])
        self.assertEqual(list(self.job().steps(6)), [])
        self.assertEqual(list(self.job().steps(5)), [])

    def test_every_so_many_steps_a_checkpoint_is_kept_up_to_the_number_asked_for(self):
        seen = {}
        job = self.job(every="2steps", keep=2)
        for step in job.steps(7):
            job.wait()
            seen[step] = saved_steps(self.dir)
        self.assertEqual(seen[6], [4, 6])
        self.assertEqual(saved_steps(self.dir), [6, 7])

    def test_a_file_of_the_program_is_saved_and_put_back(self):
        own = os.path.join(self.folder, "own.bin")
        for step, text in ((1, "one"), (2, "two")):
            with self.job() as job:
                with open(own, "w") as file:
                    file.write("spoilt" if job.restored else text)
                job.files(own=own)
                if job.restored:
                    with open(own) as file:
                        self.assertEqual(file.read(), "one")
                job.train_step = step
                job.save()

    def test_files_named_later_are_put_back_and_those_named_before_are_left_alone(self):
        names = [os.path.join(self.folder, name) for name in ("first", "second", "third")]

        def write(path, text):
            with open(path, "w") as file:
                file.write(text)

        def read(path):
            with open(path) as file:
                return file.read()

        with self.job() as job:
            for path in names[:2]:
                write(path, "saved")
            job.files(first=names[0], second=names[1])
            job.train_step = 1
            job.save()
        for path in names[:2]:
            write(path, "spoilt")
        with self.job() as job:
            job.files(first=names[0])
            self.assertEqual((read(names[0]), read(names[1])), ("saved", "spoilt"))
            write(names[0], "gone on")
            job.files(second=names[1])
            self.assertEqual((read(names[0]), read(names[1])), ("gone on", "saved"))
            write(names[2], "new")
            with self.assertRaisesRegex(dlckpt.MismatchError, "third"):
                job.files(third=names[2])
            self.assertEqual(read(names[2]), "new")
            job.train_step = 2
            job.save()
        for path in names:
            write(path, "spoilt")
        with self.job(strict=False) as job:
            job.files(first=names[0], second=names[1])
            self.assertEqual((read(names[0]), read(names[1])), ("gone on", "saved"))
            job.files(third=names[2])
            self.saying("third")
            write(names[2], "at last")
            job.train_step = 3
            job.save()
            write(names[2], "spoilt")
        with self.job() as job:
            job.files(third=names[2])
            self.assertEqual(read(names[2]), "at last")

    def metrics_of(self, step):
        for name in os.listdir(self.dir):
            if name.startswith("step-%012d." % step):
                with open(os.path.join(self.dir, name, "MANIFEST.json")) as file:
                    return json.load(file).get("metrics", {})
        self.fail("there is no checkpoint of train step %d" % step)

    def test_the_newest_the_best_by_a_metric_and_every_fourth_are_kept(self):
        losses = {1: 3, 2: 1.5, 3: 2, 4: 5, 5: 4, 6: 6, 7: None}
        for words, options in (("", dict(keep=1, best="loss:min:1", keep_every=4)), (",keep=1,best=loss:max:1,keep-every=5", {})):
            self.dir = os.path.join(self.folder, "of the program" if options else "asked for")
            with support.environment(DL_CHECKPOINT=self.dir + words if words else None):
                with self.job(**options) as job:
                    for step, loss in losses.items():
                        job.train_step = step
                        if loss is not None:
                            job.metric("loss", loss)
                            job.metric("val/acc", 7)
                        job.save()
            self.assertEqual(saved_steps(self.dir), [2, 4, 7] if options else [5, 6, 7])
            self.assertEqual(self.metrics_of(saved_steps(self.dir)[0]), {"loss": 1.5 if options else 4, "val/acc": 7})
            self.assertEqual(self.metrics_of(7), {}, "a metric is of the next save alone")

    def test_metrics_that_cannot_be_kept_are_refused(self):
        with self.job() as job:
            for name, value in (("", 1), ("two words", 1), ("-x", 1), ("loss", float("nan")), ("loss", float("inf"))):
                with self.assertRaises(dlckpt.InvalidError):
                    job.metric(name, value)
            job.save()
        self.assertEqual(self.metrics_of(0), {})
        for best in ("loss", "loss:least:1", "loss:min:0"):
            with self.assertRaises(dlckpt.InvalidError):
                self.job(best=best)
        with self.job(dir=None) as job:
            job.metric("loss", 1)  # training without saving

    def test_each_way_of_saving_ends_with_the_same_checkpoints_and_counts_them(self):
        for mode in ("async", "lazy", "sync"):
            self.dir = os.path.join(self.folder, mode)
            a, gap = np.zeros(1000), np.zeros((40, 50))
            with self.job(a, every="2steps", mode=mode, gap=gap[:, ::2]) as job:
                for step in range(6):
                    job.check()
                    a += 1  # at once: it was copied, or is on the disk
                    gap += 1
                    job.step_done()
                self.assertEqual(job.wait(), 4)
                self.assertEqual((job.saves, job.stats.step), (2, 4))
            b, whole = np.zeros(1000), np.zeros((40, 50))
            job = self.job(b, gap=whole[:, ::2])
            self.assertEqual((job.train_step, b.min(), b.max()), (4, 4, 4))
            self.assertEqual((whole[:, ::2].min(), whole[:, 1::2].max()), (4, 0))
            job.close()
        with self.assertRaisesRegex(dlckpt.InvalidError, "'later'; allowed: async, sync, lazy"):
            self.job(mode="later")

    def test_by_time_a_single_learner_saves_without_dlrun(self):
        job = self.job(every=1)
        for step in job.steps(30):
            time.sleep(0.1)
            if step == 25:
                self.assertTrue(saved_steps(self.dir))
                break
        job.close()

    def test_the_interval_asked_for_at_submission_wins(self):
        with support.environment(DL_CHECKPOINT=self.dir + ",every=3steps,keep=1"):
            for step in self.job(dir="elsewhere", every="2steps", keep=9, final_save=False).steps(5):
                pass
        self.assertEqual(saved_steps(self.dir), [3])
        self.saying("instead of elsewhere")
        self.assertFalse(os.path.exists("elsewhere"))

    def test_after_a_break_finish_saves_and_close_does_not(self):
        for end, steps in (("close", []), ("finish", [2])):
            job = self.job()
            for step in job.steps(9):
                if step == 2:
                    break
            getattr(job, end)()
            self.assertEqual(saved_steps(self.dir), steps)

    def test_after_its_end_a_job_still_tells_of_its_saves_and_does_not_pretend_to_save(self):
        weights = np.zeros(4)
        job = dlckpt.attach(w=weights, dir=self.dir, every="1step", final_save=False)
        for _ in job.steps(3):
            weights += 1
        self.assertEqual((job.saves, job.stats.step, job.wait()), (2, 2, 2))
        for refused in (job.save, job.check, lambda: list(job.steps(4))):
            with self.assertRaisesRegex(dlckpt.InvalidError, "has let go of its checkpoint directory, and saves nothing more"):
                refused()
        job.finish()
        self.assertEqual(weights[0], 3)
        saved = dlckpt.attach(w=weights, dir=self.dir)
        for _ in saved.steps(4):
            weights += 1
        saved.save()  # of a train step that is saved
        self.assertEqual(dlckpt.open(self.dir).step, 4)

    def test_a_loop_of_ones_own_saves_and_counts_alike(self):
        job = self.job(every="2steps")
        while job.train_step < 5:
            job.check()
            job.step_done()
        job.finish()
        job.finish()
        self.assertEqual(saved_steps(self.dir), [2, 4, 5])

    def test_an_exception_in_the_loop_passes_and_the_directory_is_free_again(self):
        with self.assertRaises(ZeroDivisionError):
            with self.job() as job:
                for _ in job.steps(3):
                    1 / 0
        self.job().close()

    def test_sigterm_without_dlrun_saves_at_the_next_train_step_and_exits_with_75(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            a = np.zeros(2)
            job = self.job(a)
            start = job.train_step
            with self.assertRaises(SystemExit) as caught:
                for step in job.steps(start + 9):
                    if step == start + 2:
                        os.kill(os.getpid(), number)
                    a += 1
            self.assertEqual(caught.exception.code, 75)
            self.assertEqual(saved_steps(self.dir)[-1], start + 3)
            self.saying("stopping at train step %d, saved" % (start + 3))
            self.assertIs(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)

    def test_a_second_ctrl_c_ends_at_once(self):
        job = self.job()
        with self.assertRaises(KeyboardInterrupt):
            for _ in job.steps(9):
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1)  # the second one ends this
        job.close()

    def test_under_dlrun_sigterm_and_sigusr2_are_ignored_from_the_first_train_step_to_the_end_of_the_process(self):
        page = os.path.join(self.folder, "page")
        with open(page, "wb") as f:
            f.write(b"DLCTPKG1" + (1).to_bytes(4, "little") + bytes(4096 - 12))
        before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR2)
        self.addCleanup(signal.signal, signal.SIGTERM, before[0])
        self.addCleanup(signal.signal, signal.SIGUSR2, before[1])
        with support.environment(DL_PROGRESS=page):
            job = self.job()
            self.assertIs(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)
            for _ in job.steps(2):
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGTERM)

    def test_a_forked_child_can_be_ended_and_does_not_free_the_directory(self):
        with self.job() as job:
            job.check()
            child = os.fork()
            if child == 0:
                job.close()
                time.sleep(30)
                os._exit(1)
            time.sleep(0.2)
            os.kill(child, signal.SIGTERM)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), -signal.SIGTERM)
            with self.assertRaises(dlckpt.BusyError):
                self.job()

    def test_a_handler_of_the_users_own_is_left_alone(self):
        called = []
        before = signal.signal(signal.SIGTERM, lambda *_: called.append(1))
        try:
            for step in self.job().steps(3):
                os.kill(os.getpid(), signal.SIGTERM)
            self.assertEqual(len(called), 3)
        finally:
            signal.signal(signal.SIGTERM, before)

    def test_calls_of_several_threads_wait_for_one_another(self):
        a, wrong = np.zeros(100000), []
        job = self.job(a, keep=200, rng=False)

        def save():
            for _ in range(15):
                try:
                    with lock:
                        job.train_step += 1
                    job.save(wait=False)
                    job.metric("loss", 1.0)
                    job.wait()
                except BaseException as error:
                    wrong.append(error)
        lock = threading.Lock()
        threads = [threading.Thread(target=save) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        job.close()
        self.assertEqual(saved_steps(self.dir)[-1], 60)

    def test_a_forked_child_waits_for_no_thread_of_its_parent(self):
        turns, taken, end = self.job()._turns, threading.Event(), threading.Event()
        thread = threading.Thread(target=turns.take, args=(lambda: (taken.set(), end.wait()),))
        thread.start()
        taken.wait()
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            os._exit(turns.take(lambda: 7))
        _, status = os.waitpid(child, 0)
        end.set()
        thread.join()
        self.assertEqual(status, 7 << 8)

    def test_it_works_off_the_main_thread(self):
        def run():
            result.extend(self.job().steps(3))
        result = []
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        self.assertEqual(result, [0, 1, 2])

    def test_bad_arguments_are_refused(self):
        for options in (dict(every="often"), dict(keep=-1), dict(rank=1), dict(rank=2, world_size=2), dict(state=np.zeros(1))):
            with self.assertRaises(dlckpt.InvalidError):
                self.job(**options)

    def test_a_checkpoint_not_made_by_attach_is_refused(self):
        with dlckpt.Context(self.dir, rank=0, world_size=1) as c:
            c.blob("x", b"1")
            c.save(1)
        with self.assertRaises(dlckpt.MismatchError):
            self.job()

    def test_a_named_random_state_does_not_disturb_the_users(self):
        np.random.seed(1)
        expected = np.random.rand(3).tolist()
        np.random.seed(1)
        with self.job() as job:
            job.save()
        self.assertEqual(np.random.rand(3).tolist(), expected)


if __name__ == "__main__":
    support.main(needs=("numpy",))
