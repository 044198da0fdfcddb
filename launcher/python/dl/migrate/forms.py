# SPDX-License-Identifier: Apache-2.0
"""Commands that dlrun can only start in another form: programs in here documents, deepy.py, Hydra's launcher of torchrun, tasks
that saw one GPU alone, and what stands behind the launch in the text of a node's shell."""
import os
import re
from typing import List, Optional, Tuple

from . import edf, images, launch as launches, shell
from .counts import NODES, Count, Found
from .launchers import LAUNCHERS
from .lightning import Lightning
from .nodes import Loop

# The head of a loop over the numbers of the nodes; not one over their names, or from 1 on.
COUNTS_FROM_0 = re.compile(r"for\s+(\w+)\s+in\s+(?:\"?\$\{!|[\"\'`]?(?:\$\()?\s*seq\s+0\s|\{0\.\.|0\s)|for\s*\(\(\s*(\w+)\s*=\s*0\b")
MOST_OF_AN_ARGUMENT = 100_000  # bytes; Linux takes 128 KiB
TRAINING = re.compile(r"backward\(|optim|DistributedDataParallel|init_process_group|Trainer\(|Accelerator\(|hvd\.init|\.fit\(|COMM_WORLD|torch\.distributed|jax\.distributed")
CHOOSES_GPU = re.compile(r"LOCAL_RANK|local_rank|SLURM_LOCALID|Trainer\(|Accelerator\(|deepspeed|set_device")
AFTER = re.compile(r"\S*(python[\d.]*|bash|sh|ssh|rsync|rclone|aws|curl|cp|mv|rm|tar)$")
OWN_GPU = ("bash -c 'export CUDA_VISIBLE_DEVICES=$(cut -d, -f$((LOCAL_RANK + 1)) <<< \"$CUDA_VISIBLE_DEVICES\"); unset LOCAL_RANK; exec \"$@\"' learner ")
# Variables that apptainer takes into a container with --cleanenv, too.
INTO_CLEAN = ("bash -c 'for v in ${!DL_*} ${!TORCHELASTIC_*} RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR MASTER_PORT; do "
              "[ \"${!v}\" ] && export \"APPTAINERENV_$v=${!v}\" \"SINGULARITYENV_$v=${!v}\"; done; exec \"$@\"' learner ")
INTO_ENROOT = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_RUN_ID".split()
# Variables by which MPI's launchers tell a process its place, and what each is of a learner.
OF_MPI = {name + behind: ours for names in (("OMPI_COMM_WORLD_", "RANK SIZE LOCAL_RANK LOCAL_SIZE"), ("MV2_COMM_WORLD_", "RANK SIZE LOCAL_RANK LOCAL_SIZE"), ("PMI_", "RANK SIZE LOCAL_RANK LOCAL_SIZE"))
          for name, parts in [names] for behind in parts.split() for ours in [behind.replace("SIZE", "WORLD_SIZE")]}
OF_MPI.update({"MPI_LOCALRANKID": "LOCAL_RANK", "MPI_LOCALNRANKS": "LOCAL_WORLD_SIZE", "PMIX_RANK": "RANK"})
# What deepy.py of GPT-NeoX hands to DeepSpeed's launcher, from the program on, each learner runs itself.
DEEPY = ("-c 'import os, runpy, sys; sys.path.insert(0, os.path.dirname(sys.argv.pop(1)) or \".\"); from megatron.neox_arguments import NeoXArgs; "
         "w = NeoXArgs.consume_deepy_args().get_deepspeed_main_args(); sys.argv = w[next(i for i, a in enumerate(w) if a.endswith(\".py\")):]; "
         "runpy.run_path(sys.argv[0], run_name=\"__main__\")' ")

SERVERS = r"\b(vllm|vllm-serve|vllm_serve|sglang|text-generation-launcher|tensorboard|redis-server|mlflow|jupyter(-\w+)?|mongod|\w*_?server(\.py)?|serve[-_]\w+(\.py)?)$|^(serve|vllm\.entrypoints\S*)$"

# Servers of models that are no part of a training, in the text of a shell.
MODEL_SERVERS = r"\bsglang\.launch_server\b|\bvllm[ \t]+serve\b|\bvllm\.entrypoints\.|\btext-generation-launcher\b|\blmdeploy[ \t]+serve\b"
GPU_SERVERS = r"\b(vllm(?![\w.]*/)|sglang|lmdeploy|tritonserver|text-generation-launcher)\b"


class Forms(Lightning):
    each: Optional[int] = None  # the GPUs of a learner
    framework = ""  # as --dl-framework names it, once it is known
    any_document = False  # nothing else starts a training: a program in a here document may be it, whatever it does

    def nodes_are_told_to_sbatch(self, launch: launches.Launch) -> bool:
        given = self.asked.given
        if not self.lines or self.asked.per_node is None and "gpus-per-task" not in given or {"nodes", "ntasks", "nodelist", "gpus"} & set(given):
            return False
        words = [shell.unquoted(self.text[word.start:word.end]) for holder in launch.stack for word in holder.words]
        scripts = [name for word in words for name in shell.names_ending(word, "sh", r"[^\s\"';&|()]+")]
        spoken = [self.text] + [self.content_of(name) or "" for name in scripts]
        return any(re.search(NODES, re.sub(r"^[ \t]*#[^\n]*", "", text, flags=re.M)) for text in spoken)

    # ---- what stays

    def stays_as_it_is(self) -> bool:
        """Whether the whole script stays, for what its #SBATCH lines ask for."""
        for line in self.lines:
            for option in line.options:
                if option.name in ("container-image", "environment"):
                    self.note(line.start, f"this script itself runs in a container ({option.text}), where dlrun is not, and is left as it is: "
                              "to have its learners in a container, leave this option out and give dlrun --image a directory, *.sqsh or *.sif")
                elif option.name in ("hetjob", "packjob"):
                    self.note(line.start, "a heterogeneous job: --dl-* flags are refused in it; it is left as it is")
                else:
                    continue
                return True
        return False

    def server_beside(self, learners: Count) -> Optional[int]:
        """Where a server of a model begins that runs in the background on GPUs of the job which the training leaves to it."""
        if not self.asked.gpus or (learners.most or 0) >= self.asked.gpus:
            return None
        for command in self.commands:
            if command.words and self.in_background(command) and re.search(GPU_SERVERS, self.text[command.words[0].start:command.words[-1].end]):
                return command.words[0].start
        return None

    def serves(self, launch: launches.Launch) -> bool:
        """Whether the command runs beside the training, like a server. It then stays with srun."""
        words = [shell.unquoted(self.text[word.start:word.end]) for word in launch.stack[-1].words[launch.stack[-1].at:][:6]]
        told = launch.told[-1]
        one = self.number(told.get("total")) == 1 or self.number(told.get("nodes")) == 1 or self.has_no_gpu(launch)
        text = self.text[launch.inner[0]:launch.inner[1]] if launch.inner else ""
        return one and any(re.search(SERVERS, word) for word in words) or re.search(MODEL_SERVERS, text) is not None and not self.starts_training(text)

    @staticmethod
    def starts_training(text: str) -> bool:
        """Whether the text of a shell speaks of a training."""
        return re.search(r"torchrun|accelerate launch|deepspeed |torch\.distributed|\btrain\w*\.(py|sh)\b", text) is not None

    @staticmethod
    def has_no_gpu(launch: launches.Launch) -> bool:
        told = launch.told[-1]
        return any(what in told and re.fullmatch(r"(gpu:)?0|none", shell.unquoted(told[what].raw)) for what in ("gres", "gpus", "gpus_each", "gpus_per_node"))

    # ---- the container of srun

    def read_description(self, launch: launches.Launch) -> None:
        """Of srun --environment=NAME: what the file says that describes it, if it can be read here."""
        named = launch.value("edf")
        if named is None or launch.value("image") is not None:
            return
        name = self.values.text(named.raw, named.at) or shell.unquoted(named.raw)
        found = edf.read(name, self.place_of)
        if found is None:
            return

        def word(value: str) -> str:
            return '"' + re.sub(r'([\\"`])', r"\\\1", value) + '"' if "$" in value else shell.quoted(value)

        told = launch.told[-1]
        told["image"] = launches.Told(word(found.image), named.at)
        if found.mounts:
            told["mounts"] = launches.Told(word(",".join(found.mounts)), named.at)
        if found.workdir and "workdir" not in told:
            told["workdir"] = launches.Told(word(found.workdir), named.at)
        launch.env += [(key, word(value)) for key, value in found.env]
        self.note(named.at, f"the container is that which {os.path.relpath(found.path)} describes" +
                  (": the site's hooks that this file asks for (annotations) are not run" if found.hooks else ""))

    def image_value(self, launch: launches.Launch) -> str:
        image = launch.value("image")
        name = re.fullmatch(r'"?\$\{?(\w+)\}?"?', image.raw) if image is not None else None
        return (self.values.raw(name.group(1), image.at) if name and image else None) or (image.raw if image is not None else "")

    def image_of(self, launch: launches.Launch) -> str:
        """The container's image as a word of the script; empty if it is no file."""
        image = launch.value("image")
        return image.raw if image is not None and re.search(r"\.(sqsh|sqfs|squashfs|sif)\W*$", self.image_value(launch)) else ""

    def is_pulled(self, launch: launches.Launch) -> bool:
        """Whether the image is one of a registry, and lines that pull it can stand in front of the launch."""
        image = launch.value("image")
        first = launch.cursor.top.words[0]
        at = first.start
        before = self.text[self.text.rfind("\n", 0, at) + 1:at]
        if self.text[at:first.end] in shell.RESERVED - {"if", "time", "!"} or re.search(r"(&&|\|)\s*$", self.text[:at]):
            return False
        value = shell.unquoted(self.image_value(launch))
        told = re.fullmatch(r"\$\{?[A-Za-z_]\w*\}?", value) is not None  # from outside of the script: only where it runs, it is known whether that is a file
        known = image is not None and (images.is_of_registry(value) or told) and not before.strip() and \
            not self.text[:at].rstrip(" \t").endswith("\\\n")
        return known and image is not None and "\\" not in image.raw and ("$" not in image.raw or re.match(r"#![^\n]*\bbash\b", self.text) is not None)

    def image_words(self, item: Found) -> str:
        """The option of dlrun for the image, which is pulled before if it is one of a registry."""
        image = item.launch.value("image")
        if image is None:
            return ""
        if self.image_of(item.launch):
            return f"--image {image.raw} "
        at = item.launch.cursor.top.words[0].start
        line = self.text.rfind("\n", 0, at) + 1
        self.edits[(line, line)] = images.pulled(image.raw, self.text[line:at])
        self.note(at, f"the container {image.raw}{', if that is no file,' if '$' in image.raw else ''} is pulled once, into a file that all nodes must see, and is run by Apptainer; it cannot be written into. "
                  "Where the nodes have pyxis and enroot, but no Apptainer, keep the script as it was")
        return '--image "$dl_image" '

    def env_of_image(self, item: Found) -> List[Tuple[str, str]]:
        launch = item.launch
        mounts = launch.value("mounts")
        if launch.value("image") is None:
            return []
        env: List[Tuple[str, str]] = []
        if mounts is not None and images.MOUNTS.fullmatch(self.values.text(mounts.raw, mounts.at) or shell.unquoted(mounts.raw)):
            env.append(("APPTAINER_BIND", mounts.raw))
            self.note(mounts.at, "mounts of the container are told to Apptainer (APPTAINER_BIND); Charliecloud has those of dl.toml(5), image")
        elif mounts is not None:
            self.note(mounts.at, f"mounts of the container ({mounts.raw}) are the site's here: dl.toml(5), image")
        if not self.image_of(launch) and launch.inner and re.search(r"\bpip3?[ \t]+install|\bapt(-get)?[ \t]", self.text[launch.inner[0]:launch.inner[1]]):
            env.append(("APPTAINER_WRITABLE_TMPFS", "1"))  # what is installed is gone when the learner ends, as with srun
        for what, name in (("writable", "APPTAINER_WRITABLE_TMPFS"), ("root", "APPTAINER_FAKEROOT")):
            if launch.value(what) is not None and name not in dict(env):
                env.append((name, "1"))
                self.note(launch.cursor.top.words[0].start, "the container can be written into, but what is written is gone when the learner ends" if what == "writable" else
                          "the program is root in the container only with Apptainer (fakeroot)")
        return env

    def into_clean_container(self, item: Found) -> str:
        """Words that hand a learner's variables on into a container that takes none of them."""
        launch = item.launch
        words = [shell.unquoted(self.text[one.start:one.end]) for holder in launch.cursor.seen + launch.stack for one in holder.words]
        at = next((i for i, word in enumerate(words) if re.fullmatch(r"(?:\S*/)?(?:apptainer|singularity)", word)), len(words))
        return INTO_CLEAN if item.many != Count(1, 1) and {"--cleanenv", "-e"} & set(words[at:at + 12]) else ""

    def into_enroot(self, item: Found) -> None:
        """`enroot start` gives the program in the container no variables but those that it is told of."""
        words = [one for holder in item.launch.cursor.seen + item.launch.stack for one in holder.words]
        raw = [shell.unquoted(self.text[one.start:one.end]) for one in words]
        at = next((i for i, word in enumerate(raw[:-1]) if word == "enroot" and raw[i + 1] == "start"), None)
        if at is not None and item.many != Count(1, 1):
            end = words[at + 1].end
            self.edits[(end, end)] = "".join(f" --env {name}" for name in INTO_ENROOT)

    @staticmethod
    def in_folder_of_image(item: Found) -> str:
        folder = item.launch.value("workdir")
        return f"bash -c 'cd \"$0\" && exec \"$@\"' {folder.raw} " if folder is not None and item.launch.value("image") is not None else ""

    # ---- here documents

    def here_document(self, command: shell.Command) -> Optional[Tuple[shell.Word, int, int]]:
        """The word <<EOF of a command, and where the lines of its document begin and end; None unless there is exactly one."""
        marks = [word for word in command.words if word.redirect and re.match(r"\d*<<-?[^<]", self.text[word.start:word.end])]
        begin = self.text.find("\n", command.words[-1].end) + 1
        if len(marks) != 1 or begin == 0 or "<<" in self.text[marks[0].end:begin]:
            return None
        mark = self.text[marks[0].start:marks[0].end]
        name = re.sub(r"[\"'\\]|^\d*<<-?[ \t]*", "", mark)
        end = re.compile(("^\t*" if "<<-" in mark else "^") + re.escape(name) + "$", re.M).search(self.text, begin)
        return (marks[0], begin, end.start()) if end else None

    def reads_document(self, launch: launches.Launch, command: shell.Command) -> bool:
        """python - <<EOF: a program of Python's that comes by standard input."""
        if not launch.stack or not launches.PYTHON.fullmatch(launch.program) or self.here_document(command) is None:
            return False
        words = [self.text[word.start:word.end] for word in launch.stack[-1].words[launch.stack[-1].at + 1:]]
        program = next((word for word in words if not re.match(r"-\w", word)), "-")
        return program == "-" and not {"-c", "-m"} & set(words)

    def shell_reads_document(self, command: shell.Command) -> bool:
        """apptainer exec IMAGE bash <<EOF: commands of a shell that come by standard input, a program of Python's among them, and no launcher."""
        raw = [shell.unquoted(self.text[word.start:word.end]) for word in command.words if not word.redirect]
        raw = raw[:-1] if raw[-1:] in (["-l"], ["--login"]) else raw
        document = self.here_document(command) if raw and raw[-1] in launches.SHELLS else None
        body = self.text[document[1]:document[2]] if document else ""
        return re.search(r"^[^#\n]*\bpython[\d.]*[ \t]+(?:-[a-zA-Z]+[ \t]+)*(?:\S*\.py\b|-m[ \t]+(?!pip|venv))", body, re.M) is not None and len(body) < MOST_OF_AN_ARGUMENT and \
            re.search(r"torchrun|torch\.distributed|accelerate launch|deepspeed |mpirun|srun", body) is None

    def trains_in_document(self, command: shell.Command) -> bool:
        document = self.here_document(command)
        if document is None:
            return False
        body = self.text[document[1]:document[2]]
        return (self.any_document or TRAINING.search(body) is not None) and len(body.encode("utf-8", "surrogateescape")) < MOST_OF_AN_ARGUMENT

    def put_document(self, item: Found) -> None:
        """python - <<EOF: only one learner could read it, so each gets it as the text of -c."""
        command = self.command_of(item)
        document = self.here_document(command)
        if document is None:
            return
        self.say_what_starts_torchrun(item, document[1], document[2])
        mark, begin, end = document
        holder = item.launch.stack[-1]
        words = [word for word in holder.words[holder.at:]]
        at = next((word for word in words[1:] if self.text[word.start:word.end] == "-"), None)
        options = [word for word in words if word.start < (at.start if at else mark.start)]
        from_here = options[-1].end
        rest = self.text[at.end if at else from_here:mark.start] + self.text[mark.end:begin - 1]
        self.edits[(from_here, begin)] = f' -c "$(cat {self.text[mark.start:mark.end]}\n'
        line_end = self.text.find("\n", end)
        line_end = len(self.text) if line_end < 0 else line_end
        self.edits[(line_end, line_end)] = '\n)"' + (" " + rest.strip() if rest.strip() else "")

    def command_of(self, item: Found) -> shell.Command:
        return self.command_at[item.at]

    # ---- --local_rank

    def with_local_rank(self, prefix: str, launch: launches.Launch) -> str:
        """`prefix` with a shell that adds --local_rank for each learner, quoted once more if an eval reads it."""
        words = launch.cursor.top.words
        before = self.text[words[0].start - 1:words[0].start]
        # Of the text that an eval reads from a variable.
        before = next((self.text[one.value[0] - 1] for one in self.assigned if not one.array and one.value[0] <= words[0].start < one.value[1]), before)
        if before == "'":
            return prefix + 'bash -c "exec \\"\\$@\\" --local_rank=\\$LOCAL_RANK" learner '
        escaped = "bash -c 'exec \\\"\\$@\\\" --local_rank=\\$LOCAL_RANK' learner"
        if before == '"':
            return prefix + escaped + " "
        if any(self.text[word.start:word.end] == "eval" and word.start < launch.first for word in words):
            return f'"{prefix}{escaped}" '
        return prefix + "bash -c 'exec \"$@\" --local_rank=$LOCAL_RANK' learner "

    def put_local_rank(self, launch: launches.Launch, dollar: str) -> None:
        """Adds --local_rank after the program, in the text of a shell that each learner runs."""
        holder = launch.stack[-1]
        at = holder.at + 1 if launches.PYTHON.fullmatch(launch.program) else holder.at
        end = holder.words[min(at, len(holder.words) - 1)].end
        self.edits[(end, end)] = f" --local_rank={dollar}LOCAL_RANK"

    # ---- deepy.py and Hydra

    def of_other_launchers(self, item: Found) -> Found:
        """A python that itself starts the processes of the job, but need not."""
        launch = item.launch
        top = launch.cursor.top
        words = [shell.unquoted(self.text[word.start:word.end]) for word in top.words]
        gpus = self.asked.gpus
        if any(re.search(r"(^|/)deepy\.py$", word) for word in words):
            return item._replace(many=Count(gpus, gpus) if gpus else Count(None, None, "auto"))
        if "hydra/launcher=torchrun" not in words:
            return item
        each, nodes = 1, 1
        for i, word in enumerate(words):
            match = re.fullmatch(r"\+*hydra[./]launcher(?:\.(\w+))?=(.*)", word)
            behind = i > next((k for k, one in enumerate(words) if one.endswith(".py")), len(words))
            if match or behind and word in ("-m", "--multirun") and not any("," in one for one in words[i:]):
                top.gone.add(i)
            if match and match.group(1) in ("nproc_per_node", "nnodes", "max_nodes"):
                number = self.values.number(match.group(2), item.at) or 1
                each, nodes = (number, nodes) if match.group(1) == "nproc_per_node" else (each, max(nodes, number))
        return item._replace(many=Count(each * nodes, each * nodes))

    def put_deepy(self, item: Found) -> None:
        for word in item.launch.cursor.top.words:
            if re.search(r"(^|/)deepy\.py$", shell.unquoted(self.text[word.start:word.end])) and not self.is_taken(word.start):
                self.edits[(word.start, word.start)] = DEEPY
                self.note(word.start, "deepy.py starts DeepSpeed's launcher; each learner runs the program with the arguments that deepy.py would have given it")
                return

    # ---- GPUs

    def own_gpu(self, item: Found) -> str:
        """A task of --gpus-per-task=1 saw one GPU, as cuda:0. Words that let a learner see its own alone, if its program may need that."""
        launch = item.launch
        own_program = re.fullmatch(r"[\w./-]+", launch.program) and not launch.program.endswith((".sh", ".bash")) and launch.program not in launches.SHELLS and \
            not launches.is_wrapper(launch.program)
        if launch.launchers != ["srun"] or item.inner or launch.inner or not launches.PYTHON.fullmatch(launch.program) and not own_program:
            return ""
        told = launch.told[0]
        each = self.number(told["gpus_each"]) if "gpus_each" in told else self.asked.gpus_per_task
        bound = next((shell.unquoted(value.raw) for name, value in launch.noted if name == "gpu-bind"), self.asked.given.get("gpu-bind", ""))
        if each != 1 or bound in ("none", "closest") or self.tasks_of_a_node() == 1 or item.many.most == 1 or item.many.most is None and item.many.words:
            return ""
        holder = launch.stack[-1]
        program = next((name for name in (shell.unquoted(self.text[word.start:word.end]) for word in holder.words[holder.at:]) if name.endswith(".py")), "")
        content = self.content_of(program) if program else None
        if content is not None and CHOOSES_GPU.search(re.sub(r"#[^\n]*", "", content)):
            return ""
        self.alone.add(item.at)
        self.note(item.at, "each task saw one GPU alone (--gpus-per-task=1), and so does each learner; if the program takes cuda:$LOCAL_RANK, leave this bash -c out")
        return OWN_GPU

    def names_of_mpi(self, item: Found) -> str:
        """Words that give a learner the variables of mpirun that its program or script reads, where its framework is none of MPI's."""
        if item.launch.launchers[:1] != ["mpirun"] or item.inner or self.framework in ("mpi", "horovod"):
            return ""
        words = [item.launch.cursor.held(shell.unquoted(self.text[word.start:word.end])) for word in item.launch.stack[-1].words[item.launch.stack[-1].at:]]
        program = next((word for word in words if word.endswith(".py")), "")
        texts = [self.script_content(item) or "", self.content_of(program) or "" if program else ""]
        texts += self.beside(program, texts[1]) if texts[1] else []
        read = [name for name in OF_MPI if any(re.search(r"\b" + name + r"\b", text) for text in texts)]
        return "bash -c 'export " + " ".join(f"{name}=${OF_MPI[name]}" for name in read) + "; exec \"$@\"' learner " if read else ""

    def tasks_of_a_node(self) -> Optional[int]:
        return self.asked.known()["SLURM_NTASKS_PER_NODE"] if self.asked.nodes else None

    def drop_visible(self, item: Found) -> None:
        """CUDA_VISIBLE_DEVICES=0,1 in front of a launch: dlrun takes GPUs of the job that are free."""
        words = item.launch.cursor.top.words if not item.launch.stays else []
        for word, after in zip(words, words[1:]):
            match = re.match(r"(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES=(.*)", self.text[word.start:word.end], re.S)
            if word.start < item.launch.first and match and "{" not in match.group(1) and shell.unquoted(match.group(1)) not in ("", "-1") and not self.is_taken(word.start):
                self.edits[(word.start, after.start)] = ""

    # ---- behind a launch

    def keep_tail(self, item: Found) -> bool:
        """In the text of a shell: what ran once on each node, behind the launch, is run by one learner of each node. False if it is not that simple."""
        last = item.inner[-1] if item.inner else None
        if last is None or item.launch.inner is None or not last.launch.launchers or not LAUNCHERS[last.launch.launchers[-1]].script:
            return True
        start, end = item.launch.inner
        inside = shell.commands(self.text, start, end)
        here = next((one for one in inside if one.words and one.words[0].start <= last.at < one.words[-1].end), None)
        tail = [one for one in inside if one.words and one.words[0].start > last.at]
        if here is None or not any(AFTER.match(self.text[one.words[0].start:one.words[0].end]) for one in tail):
            return True
        first = tail[0].words[0].start
        if here.after not in ("", "&&") or "<<" in self.text[first:end] or \
                any(self.text[word.start:word.end] in shell.RESERVED for one in inside for word in one.words[:2]):
            return False
        dollar = "\\$" if self.quote_around(item.launch) == '"' else "$"
        if here.after == "&&":
            gap = self.text.index("&&", here.words[-1].end)
            self.edits[(gap, gap + 2)] = ";"
        self.edits[(first, first)] = (f"of_launch={dollar}?; [ {dollar}LOCAL_RANK = 0 ] && [ {dollar}of_launch = 0 ] || exit {dollar}of_launch; "
                                      "unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT; ")
        return True

    def stay_in_front(self, item: Found) -> None:
        """ssh NODE "... &": the text of a learner's shell ends when the program does."""
        if item.launch.launchers[:1] != ["ssh"] or item.launch.inner is None or not (item.inner and item.inner[-1].parallel or item.at in self.scripts):
            return
        inside = shell.commands(self.text, *item.launch.inner)
        here = next((one for one in inside if one.words and item.inner and one.words[0].start <= item.inner[-1].at < one.words[-1].end), inside[-1] if inside else None)
        if here is not None and here is inside[-1] and here.after == "&":
            gap = self.text.index("&", here.words[-1].end)
            self.edits[(gap, gap + 1)] = ""

    # ---- one node in each turn of a loop

    def takes_its_number(self, item: Found, loop: Loop) -> bool:
        """srun -w NODE -N1 -n1 env MACHINE_RANK=$i run.sh &, in a loop that counts from 0: one learner on each node, which is given the
        number of its node."""
        launch, top = item.launch, item.launch.cursor.top
        told = launch.told[0] if launch.launchers == ["srun"] else {}
        if "job:nodelist" not in told or launch.inner or item.inner or not item.parallel or not self.asked.nodes or self.number(told.get("total")) != 1:
            return False
        counter = COUNTS_FROM_0.match(self.text, loop.start, loop.body)
        if counter is None:
            return False
        given = r"([A-Za-z_]\w*)=\"?\$\{?" + (counter.group(1) or counter.group(2)) + r"\}?\"?"
        numbers = [(i, word.group(1)) for i, one in enumerate(top.words) for word in [re.fullmatch(given, self.text[one.start:one.end])] if word]
        before = set(top.gone)
        top.gone |= {i for i, _ in numbers}
        self.kept_texts.pop(item.at, None)
        if not numbers or not self.is_alone(item, loop):
            top.gone = before
            self.kept_texts.pop(item.at, None)
            return False
        self.take_out_of_loop(item, loop)
        self.whole.add(item.at)
        launch.of_node = "bash -c 'export " + " ".join(f"{name}=$DL_NODE_RANK" for _, name in numbers) + "; exec \"$@\"' learner "
        return True

    def tasks_in_a_loop(self, found: List[Found]) -> List[Found]:
        """srun -N1 -n1 -r $i bash -c "program --node_rank $i" &: one learner on each node, which knows its own number."""
        result: List[Found] = []
        for item in found:
            loop = self.loop_of(item, self.loops())
            launch = item.launch
            if loop is not None and self.takes_its_number(item, loop):
                result.append(item._replace(many=Count(self.asked.nodes, self.asked.nodes), parallel=False))
                continue
            one = loop is not None and launch.launchers == ["srun"] and launch.inner is not None and item.parallel and not item.inner and self.asked.nodes and \
                self.number(launch.told[0].get("total")) == 1 and self.number(launch.told[0].get("nodes")) == 1
            placed = [value.raw for name, value in launch.noted if name in ("r", "relative")] if one else []
            counter = re.fullmatch(r"\$\{?(\w+)\}?", placed[0]) if placed else None
            if loop is None or counter is None or launch.inner is None or self.text[launch.inner[0] - 1] != '"' or counter.group(1) not in loop.names or \
                    not re.search(r"\$\{?" + counter.group(1) + r"\b", self.text[launch.inner[0]:launch.inner[1]]):
                result.append(item)
                continue
            for use in re.finditer(r"\$\{" + counter.group(1) + r"\}|\$" + counter.group(1) + r"\b", self.text[launch.inner[0]:launch.inner[1]]):
                at = launch.inner[0] + use.start()
                self.edits[(at, at + len(use.group(0)))] = "\\$DL_NODE_RANK"
            launch.noted = [(name, value) for name, value in launch.noted if name not in ("r", "relative")]
            self.take_out_of_loop(item, loop)
            self.whole.add(item.at)
            result.append(item._replace(many=Count(self.asked.nodes, self.asked.nodes), parallel=False))
        return result
