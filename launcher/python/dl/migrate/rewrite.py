# SPDX-License-Identifier: Apache-2.0
"""Rewrites a batch script with --dl-* flags and dlrun. Pure: text in, text out."""
import os
import re
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from . import called as calls, directives, launch as launches, shell, unfold, wrap
from .counts import Count, Found, Note
from .launchers import LAUNCHERS, RENDEZVOUS
from .plain import Plain
from .rendezvous import set_in
from .words import Cursor, Holder


class Result(NamedTuple):
    script: str
    launches: int
    learners: str
    gpus: Optional[int]
    framework: str
    notes: List[Note]
    others: Tuple[calls.Part, ...] = ()  # of the scripts that it calls


def migrate(text: str, folder: str = ".", copies: bool = False) -> Result:
    """`folder`: that of the script, in which files that it names are looked for. `copies`: a script that it calls becomes a new
    file, too, which is called in its place."""
    whole, lines = unfold.going_on(text)
    if lines:
        result = migrate(whole, folder, copies)
        why = "a \\ at the end of a line has to be its last character, so this line did not go on; now it does (a remark behind it has gone)"
        return result._replace(notes=sorted({*result.notes, *[Note(line, why) for line in lines]})) if result.launches else result._replace(script=text)
    wraps = wrap.wrapped(text)
    documents = wrap.documents(text) if not directives.read(text) else []
    if wraps or documents:
        return _of_jobs(text, folder, wraps, documents)
    own = _of_own_submission(text, folder, copies) if not directives.read(text) else None
    if own is not None:
        return own
    alone = _Migration(text, folder)
    result = alone.run()
    called = calls.called_by(alone) if result.launches == 0 else []
    return _with_called(text, folder, result, called, copies) if called else result


def _with_called(text: str, folder: str, alone: Result, called: List[calls.Called], copies: bool) -> Result:
    """`alone`: the result if the scripts that it calls are not read."""
    whole, pieces = calls.joined(text, called)
    both = _Migration(whole, folder)
    both.background = [(one.start, one.end) for one in pieces if one.of is not None and called[one.of].background]
    result = both.run()
    parts = calls.parts_of(both.edits, pieces) if result.launches else None
    if parts is None:
        return alone
    ours = parts.pop(None, {})
    learner = calls.call_at(both.one_process, pieces)
    others: List[calls.Part] = []
    if learner is not None and not called[learner].sourced:
        edits, notes = calls.as_learner(text, called, called[learner], both.hidden)
    else:
        odd = calls.at_odds(parts, called)
        if odd is not None:
            return alone._replace(notes=sorted({*alone.notes, calls.note_at_odds(text, *odd)}))
        others, edits, notes = calls.changed(text, called, parts, copies)
    ours.update(edits)
    notes += calls.notes_of(result.notes, whole, text, called, pieces)
    return result._replace(script=shell.applied(text, ours), notes=sorted(set(notes)), others=tuple(others))


def _of_own_submission(text: str, folder: str, copies: bool) -> Optional[Result]:
    """The result for a script that submits itself by `sbatch OPTIONS "$0"`. None if it does not, or nothing is started in it."""
    results: List[Result] = []

    def of_one(script: str) -> Optional[str]:
        result = migrate(script, folder, copies)
        added = script.count("\n") - text.count("\n")
        results.append(result._replace(notes=sorted({Note(max(note.line - added, 0), note.text) for note in result.notes})))
        return result.script if result.launches else None

    script = wrap.of_own_submission(text, of_one)
    return results[0]._replace(script=script) if script is not None else None


def _of_jobs(text: str, folder: str, wraps: List[wrap.Wrapped], documents: List[Tuple[int, int, bool]]) -> Result:
    """Each sbatch --wrap of the script, and each batch script that it writes, is a job of its own."""
    edits: Dict[Tuple[int, int], str] = {}
    results: List[Result] = []
    notes: List[Note] = []

    def of_one(script: str) -> Optional[str]:
        results.append(_Migration(script, folder).run())
        return results[-1].script if results[-1].launches else None

    def says_no_training(script: str) -> bool:
        way = _Migration(script, folder)
        return way.run().launches == 0 or way.says_no_training

    for one in wraps:
        line = text.count("\n", 0, one.wrap.start) + 1
        made = wrap.edits_of(text, one, of_one)
        if made is not None or not results[-1].launches:
            notes += [Note(line, note.text) for note in results[-1].notes]
        if made is None:
            notes.append(Note(line, "what stands in --wrap is not understood as a launch, and stays"))
            results.pop()
            continue
        edits.update({(start, end): new for start, end, new in made})
    for start, end, expanded in wrap.of_trainings(text, documents, says_no_training):
        line = text.count("\n", 0, start)
        new = wrap.edit_of(text, start, end, expanded, of_one)
        notes += [Note(line + note.line, note.text) for note in results[-1].notes]
        if new is None:
            results.pop()
            continue
        edits[(start, end)] = new
    if not results:
        notes += [Note(text.count("\n", 0, start), "the batch script that is written here is not understood as a launch: if it is written in several pieces, translate what comes "
                       "out of it") for start, _, _ in documents[:1] if not notes]
        return Result(text, 0, "", None, "", notes)
    first = results[0]
    return Result(shell.applied(text, edits), sum(one.launches for one in results), first.learners, first.gpus, first.framework, sorted(set(notes)))


class _Migration(Plain):
    def __init__(self, text: str, folder: str):
        super().__init__(text, folder)
        self.others: Dict[int, List[Found]] = {}
        self.one_process: Optional[int] = None  # offset of the command, if the script starts one process without a launcher

    def run(self) -> Result:
        if self.stays_as_it_is():
            return Result(self.text, 0, "", None, "", self.notes)
        late = directives.unread(self.text)
        if late is not None:
            self.note(late, "this #SBATCH line and those below have no effect, since sbatch reads them only up to the first command: to have their options, move them above it")
        if self.lines and not self.text.startswith("#!"):
            self.edits[(0, 0)] = "#!/bin/bash\n"
            self.note(0, "the first line is not #!/bin/bash, without which sbatch refuses a script; now it is")
        found = [item for item in (self.look(command) for command in self.commands) if item is not None]
        found, left = self.scripts_on_each_node(found)
        if left and not found:
            return Result(self.text, 0, "", None, "", self.notes)
        self.others = {item.at: self.other_ways(item) for item in found}
        found = [item._replace(many=self.many_of(item)) for item in found]
        processes = {item.at: item.many for item in found}
        found = [self.with_gpus_left(item) for item in found]
        if self.starts_ray() and not any(name != "srun" for item in found for one in [item] + item.inner for name in one.launch.launchers):
            self.note(0, "Ray starts and places the processes of this job itself: leave the script as it is, without dlrun")
            return Result(self.text, 0, "", None, "", self.notes)
        if not found:
            found = [self.of_other_launchers(item) for item in self.plain_python()]
            found = [self.of_lightning(item) for item in found]
            self.one_process = found[0].at if found and found[0].many == Count(1, 1) else None
            if found and found[0].many == Count(1, 1) and ((self.asked.nodes or 1) > 1 or (self.asked.per_node or 1) > 1 and self.asked.gpus != 1):
                what = f"{self.asked.nodes} nodes" if (self.asked.nodes or 1) > 1 else f"{self.asked.per_node} tasks"
                self.note(found[0].at, f"this starts one process, but the job asks for {what}: if it starts the others itself, have it start none (or leave it out) and put "
                          "the training behind dlrun -- with --dl-learners=N; else ask for one node")
        if not found and not self.any_document:
            self.any_document = True
            found = [item for item in (self.look(command) for command in self.commands) if item is not None]
            self.others.update({item.at: [] for item in found})
        if not found:
            self.say_which_scripts_start()
            if not any("stays with srun" in note.text for note in self.notes):
                self.say_which_launchers_stay()
            return Result(self.text, 0, "", None, "", self.notes)
        found = self.with_other_branches(found)
        found = self.tasks_in_a_loop(self.one_of_parts(self.without_setup(found)))
        found = [self.of_lightning(item) for item in found]
        learners = self.learners_of(found)
        server = self.server_beside(learners)
        if server is not None:
            self.note(server, "this server runs on GPUs of the job beside the training; dlrun would give these to learners, so the script is left as it is: "
                      "to use dlrun, start the server in a job of its own")
            return Result(self.text, 0, "", None, "", self.notes)
        self.say_of_gpus_left(found, processes)
        # With such a launcher, a task's CPUs are shared by the processes that it starts. mpirun's processes are Slurm's
        # tasks.
        self.one_starts_many = any(LAUNCHERS[one.launch.launchers[-1]].script for item in found for one in [item] + item.inner if one.launch.launchers) or self.lightning
        # What the batch script itself starts, without srun, has the CPUs of all tasks: -n 16 means 16 CPUs.
        self.tasks_are_cpus = (self.asked.nodes or 1) == 1 and not any(item.launch.launchers[:1] in (["srun"], ["mpirun"], ["ssh"], ["pdsh"], ["horovodrun"]) or
                                                                      item.inner and item.launch.launchers[:1] == ["srun"] for item in found)
        if learners.most is None or self.tasks_share_gpus(found, learners) or self.gpus_are_told_to_sbatch(found):
            return self.told_by_the_job(found, learners)
        gpus = self.each = self.gpus_of(found, learners)
        framework = self.framework = self.framework_of(found, learners)
        for item in found:
            self.rewrite(item, learners)
        self.keep_tasks_of_srun(found, learners)
        self.drop_rendezvous(found)
        self.say_which_launchers_stay()
        self.say_of_own_signal()
        self.share_cpus_once(learners)
        self.replace_variables(learners)
        flags = [f"--{name}={value}" for name, value in self.job_options(found, learners)]
        ours = [f"--dl-framework={framework}"] if framework else []
        if learners.least:
            ours.append(f"--dl-learners={_text_of(learners)}")
        if gpus is not None:
            kind = f"{self.asked.gpu_type}:" if self.asked.gpu_type and gpus else ""
            ours.append(f"--dl-gpus={kind}{gpus}")
        if self.restarts:
            ours.append(f"--dl-restarts={self.restarts}")
        instead = directives.of_gpus(self.asked, gpus)
        if learners.least == learners.most and not self.cpus_of_srun(found):
            instead.update(directives.of_memory(self.asked, (self.cpus_of(learners) or self.asked.cpus or 1) * (learners.most or 1)))
        if learners.least != learners.most:
            instead["nodes"] = ""  # the number of nodes follows from the range of learners
        for start, end, new in directives.rewritten(self.text, self.lines, [" ".join(ours)] + flags, self.cpus_of(learners), self.per_node(learners),
                                                      instead):
            self.edits[(start, end)] = new + (self.edits.get((start, end), "") if start == end else "")  # the command may begin right here
        return Result(shell.applied(self.text, self.edits), len(found), _text_of(learners), gpus, framework, sorted(set(self.notes)))

    def told_by_the_job(self, found: List[Found], learners: Count) -> Result:
        """Leaves the #SBATCH lines as they are, and has dlrun take the number of learners that the script itself
        computes."""
        self.framework = self.framework_of(found, learners)
        open_number = Count(None, None)
        for item in found:
            self.rewrite(item, open_number)
        self.drop_rendezvous(found)
        self.say_which_launchers_stay()
        if learners.most is not None and self.asked.gpus is None:
            self.note(0, f"the lines ask for something for each GPU, but for no GPUs, which sbatch is told elsewhere: what they say stays, and dlrun starts {_text_of(learners)} learners")
            return Result(shell.applied(self.text, self.edits), len(found), _text_of(learners), None, self.framework, sorted(set(self.notes)))
        if learners.most is not None:
            self.note(0, f"{learners.most} processes share {self.asked.gpus} GPU{'' if self.asked.gpus == 1 else 's'} here, and so do the learners: what sbatch is told stays, as --dl-gpus gives each "
                      "learner GPUs of its own")
            return Result(shell.applied(self.text, self.edits), len(found), _text_of(learners), self.asked.gpus, self.framework, sorted(set(self.notes)))
        words = next((item.many.words for item in found if item.many.most is None), "")
        self.note(0, f"how many learners there are is known only where the job runs: what sbatch is told stays, and dlrun starts "
                     + (f"--learners {words}" if words else "one for each task of the job"))
        return Result(shell.applied(self.text, self.edits), len(found), words, None, self.framework, sorted(set(self.notes)))

    # ---- finding

    def other_ways(self, item: Found) -> List[Found]:
        """The same command, read with the values that other branches assign to its variables."""
        ways: List[Found] = []
        for holder in item.launch.cursor.seen:
            mine = holder.assignment
            if mine is None or not holder.shared:
                continue
            command = self.command_at[item.at]
            for other in self.assigned:
                if other.name != mine.name or other.start == mine.start or not self.branches.exclude(other.start, mine.start):
                    continue
                there = [one for one in self.assigned if one.name != mine.name] + [other]
                launch = launches.read(Cursor(self.text, command.words, there, self.shared))
                if launch is not None and launch.launchers and any(one.assignment is other for one in launch.cursor.seen):
                    ways.append(Found(launch, [], self.count_of(launch), item.parallel, item.at))
        return ways

    def many_of(self, item: Found) -> Count:
        """The number of learners. If the branches have different ones, one learner for each GPU."""
        counts = [item.many] + [way.many for way in self.others[item.at]]
        return item.many if all(one == item.many for one in counts) else Count(None, None, "auto")

    def look_in_text(self, command: shell.Command, own: List[shell.Assignment]) -> Optional[Found]:
        """A command in the text of a shell, which assigns `own`; of several values of one variable, that with a launcher."""
        found = self.look_once(command, True, self.assigned)
        first = re.match(r"\"?\$\{?(\w+)", self.text[command.words[0].start:command.words[0].end]) if command.words else None
        values = [one for one in own if found is None and first and one.name == first.group(1) and one.start < command.words[0].start]
        shared = self.shared | {one.name for one in values[1:]}
        for one in reversed(values):
            others = [other for other in [*self.assigned, *own] if other.name != one.name]
            found = found or self.look_once(command, True, sorted([*others, one], key=lambda other: other.start), shared)
        return found

    def look(self, command: shell.Command) -> Optional[Found]:
        found = self.look_once(command, False, self.assigned)
        first = re.match(r"\"?\$\{?(\w+)", self.text[command.words[0].start:command.words[0].end]) if command.words else None
        if found is None and first:
            # The last of the branches has no launcher, but another one may.
            before = [one for one in self.assigned if one.name == first.group(1) and one.start < command.words[0].start]
            for other in [one for one in before if self.branches.exclude(one.start, before[-1].start)]:
                found = self.look_once(command, False, [one for one in self.assigned if one.name != other.name] + [other])
                if found is not None:
                    return found
        return found

    def look_once(self, command: shell.Command, nested: bool, assigned: List[shell.Assignment], shared: Optional[FrozenSet[str]] = None) -> Optional[Found]:
        words = [word for word in command.words if not word.redirect]
        if not words:
            return None
        raw = [self.text[word.start:word.end] for word in words]
        if all(re.match(r"[A-Za-z_]\w*\+?=", item) for item in raw) or raw[0] in ("export", "declare", "local", "readonly", "echo", "alias", "function", "printf"):
            return None
        launch = launches.read(Cursor(self.text, command.words, assigned, self.shared if shared is None else shared), nested)
        if launch is None:
            return None
        if launch.program in ("", "{}") or (launch.launchers[-1:] in (["srun"], ["mpirun"]) and launches.is_utility(launch.program) and
                                  not (launch.inner and launch.program == "env")):
            return None
        if self.in_background(command) and launch.launchers[-1:] == ["srun"] and self.serves(launch):
            return None
        if launch.launchers[:1] in (["srun"], ["mpirun"]) and ("multi_prog" in launch.told[0] or ":" in raw):
            self.note(words[0].start, f"this stays with {launch.launchers[0]}: it starts several programs (--multi-prog, or : between two), and learners all run the same one")
            return None
        if "pty" in (launch.told or [{}])[0] and (os.path.basename(launch.program) in launches.SHELLS or re.fullmatch(r"\$\{?SHELL\}?", launch.program)) and not launch.inner:
            return None  # somebody works in this shell
        self.read_description(launch)
        container = launch.value("image") or launch.value("container") or launch.value("edf")
        if container is not None and not self.image_of(launch) and not self.is_pulled(launch):
            why = "is described by a file that cannot be read here" if launch.value("image") is None and launch.value("edf") else "is no file"
            self.note(words[0].start, f"this stays with srun: its container ({container.raw}) {why}, and dlrun --image takes a directory, *.sqsh or *.sif")
            return None
        if nested and container is not None and launch.value("image") is not None:
            self.note(words[0].start, f"this stays with srun: dlrun would start the shell around it, which is outside its container ({container.raw})")
            return None
        inner: List[Found] = []
        if launch.inner:
            inside = shell.commands(self.text, *launch.inner)
            own = shell.assignments(self.text, inside)
            inner = [item for item in (self.look_in_text(one, own) for one in inside) if item is not None]
            text = self.text[launch.inner[0]:launch.inner[1]]
            if not inner and (not launch.launchers or "--container-image" in text or not self.trains(text)):
                return None
        elif launch.launchers == ["srun"] and (self.reads_document(launch, command) and (nested or not self.trains_in_document(command)) or
                                               self.is_snippet(launch) and not self.reads_document(launch, command)):
            return None
        if launch.launchers in (["ssh"], ["pdsh"]) and not inner:
            return self.of_another_node(launch, command)
        # Variables that pass on where ranks meet are removed, unless the command itself reads them.
        whole = self.text[words[0].start:words[-1].end]
        launch.env = [pair for pair in launch.env if pair[0] not in RENDEZVOUS or re.search(r"\$\{?" + pair[0] + r"\b", whole)]
        for text in launch.notes:
            self.note(words[0].start, text)
        count = self.count_of(launch) if not inner else max((item.many for item in inner), key=lambda one: one.most or 0)
        item = Found(launch, inner, count, self.in_background(command) or launch.launchers == ["ssh"] and inner[-1].parallel, words[0].start)
        return None if launch.launchers[:1] == ["ssh"] and not self.is_part(item) else item

    # ---- rewriting

    def rewrite(self, item: Found, learners: Count, nested: str = "") -> None:
        """Rewrites one launch. `nested`: the quote around the text of a shell that contains it."""
        launch, cursor = item.launch, item.launch.cursor
        for inner in item.inner:
            self.rewrite(inner, learners, self.quote_around(launch))
        if launch.inner and not nested and not self.is_alone_in_job(item) and item.at not in self.scripts:
            self.drop_inner_rendezvous(item)
        if not nested:
            self.drop_visible(item)
            self.put_deepy(item)
            self.into_enroot(item)
            self.stay_in_front(item)
        if not nested and (launch.launchers == ["srun"] and self.reads_document(launch, self.command_of(item)) or
                           launch.launchers in (["srun"], []) and not item.inner and self.shell_reads_document(self.command_of(item))):
            self.put_document(item)
        prefix = "" if nested else self.dlrun_words(item, learners)
        python = launch.python + " " if launch.python else ""
        if launch.launchers[-1:] == ["srun"] and re.fullmatch(r"[\w.-]+\.(sh|bash|py|slurm)", launch.program):
            python = "./"  # srun also finds programs in the working directory
        top = cursor.top
        if nested and launch.env and top.gone and top.words[min(top.gone)].start == launch.first:
            prefix = "".join(f"{name}={value} " for name, value in launch.env)
        elif nested and launch.env:
            python = "env " + "".join(f"{name}={value} " for name, value in launch.env) + python
        # The interpreter is written into the innermost holder from which the word right before the program was removed.
        place: Optional[Holder] = None
        for holder in reversed(launch.stack):
            if holder.at - 1 in holder.gone:
                place = holder
                break
        if place is None:
            # Otherwise into a variable that ends with the launcher, after words that stay.
            place = next((holder for holder in reversed(cursor.seen) if holder.assignment is not None and holder.at == len(holder.words) and
                          holder.at - 1 in holder.gone and (holder.shared or len(holder.gone) < len(holder.words))), None)
        if launch.local_rank and not nested:
            prefix = self.with_local_rank(prefix, launch)
        if launch.local_rank and nested:
            self.put_local_rank(launch, "$" if nested == "'" else "\\$")
        if place is None:
            prefix += python
            python = ""
        for holder in cursor.seen:
            if holder.assignment is not None and len(holder.gone) == len(holder.words) and not holder.shared and not holder.borders:
                self.drop_assignment(holder)
                continue
            for first, last in holder.runs():
                new = ""
                if holder is cursor.top and first == min(holder.gone) and holder.words[first].start == launch.first:
                    new, prefix = prefix, ""
                if holder is place and last == holder.at - 1:
                    new += python if not holder.ends_with(last) or holder is cursor.top else python.rstrip()
                start, end = holder.words[first].start, holder.end_of(last)
                if "\n" in self.text[holder.words[last].end:end] and not new and holder is not cursor.top:
                    end = holder.words[last].end
                self.edits[(start, end)] = new
        if prefix:
            self.edits[(launch.first, launch.first)] = prefix
        self.say_what_was_dropped(item)
        for way in self.others.get(item.at, []) if not nested else []:
            self.rewrite_holders(way.launch, place is not cursor.top)

    def rewrite_holders(self, launch: launches.Launch, with_python: bool) -> None:
        """Removes the launcher's words from what another branch assigns. `with_python`: the interpreter is not in the command itself."""
        place = next((holder for holder in list(reversed(launch.stack)) + launch.cursor.seen if holder.assignment is not None and holder.at - 1 in holder.gone), None)
        for holder in launch.cursor.seen:
            if holder.assignment is None or self.is_taken(holder.assignment.value[0]):
                continue
            for first, last in holder.runs():
                python = launch.python + " " if with_python and launch.python and holder is place and last == holder.at - 1 else ""
                self.edits[(holder.words[first].start, holder.end_of(last))] = python.rstrip() if holder.ends_with(last) else python

    def dlrun_words(self, item: Found, learners: Count) -> str:
        words = "".join(f"{name}={value} " for name, value in item.launch.env + self.env_of_image(item))
        last = item.launch.launchers[-1] if item.launch.launchers else ""
        if last in ("srun", "mpirun") and not item.inner and (item.many.most or 2) > 1 and "MASTER_PORT=" not in words:
            holder = item.launch.stack[-1]
            if self.meets_in_script(item):
                words += "MASTER_PORT=29500 "
                self.note(item.at, f"{self.script_of(item)} says itself where the ranks meet, so rank 0 hosts their store (MASTER_PORT is set), and not dlrun")
            elif self.meets_in_code([item.launch.cursor.held(shell.unquoted(self.text[word.start:word.end])) for word in holder.words[holder.at:]]):
                self.own_port = self.own_port or self.values.last("MASTER_PORT", item.at) is not None and self.is_exported("MASTER_PORT")
                words += "" if self.own_port else "MASTER_PORT=29500 "
                self.note(item.at, "the program says itself where its ranks meet, so rank 0 hosts their store (MASTER_PORT is set), and not dlrun")
        if words and item.launch.cursor.runs_words:
            words = "env " + words
        words += "dlrun "
        if learners.most is None:
            words += f"--framework {self.framework} " if self.framework else ""
            many = item.many.words if item.many.most is None else _text_of(item.many)
            words += f"--learners {many} " if many else ""
            words += f"--gpus {item.many.gpus} " if item.many.gpus > 1 else ""
            words += f"--restarts {self.restarts} " if self.restarts else ""
        elif item.many.most and item.many != learners:
            words += f"--learners {_text_of(item.many)} " + self.gpus_of_one_process(item)
        words += "--alone " if self.is_alone_in_job(item) else ""
        words += self.image_words(item)
        words += "-- "
        kept = self.kept_for_script(item)
        own = self.in_folder_of_image(item) + item.launch.of_node + self.names_of_mpi(item) + self.into_clean_container(item) + self.own_gpu(item) + self.own_tasks(item) + self.visible_gpus(item)
        settings = next((one.launch.settings for one in [item] + item.inner if one.launch.settings), "")
        if settings:
            kept.append("$(dlctl migrate --variables-of " + (settings if settings[0] in "\"'" else f'"{settings}"') + ")")
        return words + "".join(f"{word} " for word in ["env"] * bool(kept) + kept) + own

    def kept_for_script(self, item: Found) -> List[str]:
        """Variables that a script needs unchanged if it starts a launcher on each node itself: it counts learners
        differently."""
        script = self.script_of(item)
        content = self.content_of(script) if script else ""
        if content is None:
            return ["WORLD_SIZE=$WORLD_SIZE"] if self.values.last("WORLD_SIZE", item.at) is not None else []
        starts = self.launchers_in_script(item)
        if not starts:
            return []
        own = set_in(content)[0]
        read = [name for name in ("WORLD_SIZE", "RANK") if re.search(r"\$\{?" + name + r"\b", content) or
                name == "WORLD_SIZE" and "composer" in starts]  # composer itself reads WORLD_SIZE
        return [f"{name}=${name}" for name in read if self.values.last(name, item.at) is not None and name not in own]

    def drop_assignment(self, holder: Holder) -> None:
        item = holder.assignment
        assert item is not None
        others = [word for word in re.finditer(r"\$\{?" + item.name + r"\b", self.text) if not self.is_taken(word.start())]
        if item.alone and not others:
            start = self.text.rfind("\n", 0, item.start) + 1
            end = self.text.find("\n", item.end)
            if self.text[start:item.start].strip() == "" and self.text[item.end:end].strip() == "":
                self.edits[(start, end + 1)] = ""
                return
        self.edits[item.value] = ""

def _text_of(count: Count) -> str:
    if count.least is None or count.least == count.most:
        return str(count.most or "")
    return f"{count.least}:{count.most}"
