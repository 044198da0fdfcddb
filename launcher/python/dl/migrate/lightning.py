# SPDX-License-Identifier: Apache-2.0
"""Lightning, which starts the processes of a node's GPUs itself where it finds that nothing else has started them."""
import re
from typing import List, Optional, Tuple

from . import launch as launches, shell
from .counts import Count, Found
from .kept import Kept

LIGHTNING = re.compile(r"^[ \t]*(import|from)[ \t]+(pytorch_lightning|lightning)\b", re.M)
TRAINER = re.compile(r"\bTrainer\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")


class Lightning(Kept):
    def of_lightning(self, item: Found) -> Found:
        """srun python with one task for each node, or python alone, where Lightning itself would start a process for each GPU: dlrun starts
        them, since in a learner Lightning starts none."""
        launch, gpus, nodes = item.launch, self.asked.gpus or 0, self.asked.nodes or 1
        if launch.launchers not in (["srun"], []) or item.inner or not launches.PYTHON.fullmatch(launch.program) or item.many.least != item.many.most:
            return item
        program, words = self.told_to_program(launch)
        content = self.content_of(program) or ""
        if not launch.launchers and nodes > 1 and self.nodes_of_lightning(words, content, item.at) == nodes:
            return self.of_lightning_on_nodes(item, words, content)
        if item.many.most != nodes or gpus <= nodes or gpus % nodes:
            return item
        told = " ".join(words + [content])
        # Without a strategy, a trainer of several devices takes ddp.
        trainer = TRAINER.search(re.sub(r"#[^\n]*", "", content))
        devices = max([int(number) for number in re.findall(r"\b(?:devices|gpus)\s*=\s*(\d+)\b", trainer.group(0))], default=0) if trainer else 0
        if trainer and re.search(r"\b(?:devices|gpus)\s*=\s*(?:[\"']?(?:-1|auto)\b|torch\.cuda\.device_count\(\))", trainer.group(0)):
            devices = gpus // (item.many.most or 1)
        by_itself = trainer is not None and 1 < devices <= gpus // (item.many.most or 1) and not re.search(r"\b(strategy|distributed_backend)\s*=|\*\*|accelerator\s*=\s*[\"'](?!gpu|cuda|auto)", trainer.group(0))
        if not LIGHTNING.search(content) or not by_itself and not re.search(r"\b(ddp|fsdp|deepspeed)", told, re.I) or re.search(r"\b(devices|gpus)[= ]+[\"']?1\b", told):
            return item
        self.lightning = True
        gpus = devices * (item.many.most or 1) if by_itself else gpus
        self.note(item.at, f"Lightning starts the processes of a node's GPUs itself here; now dlrun starts {gpus} learners, one for each GPU")
        return item._replace(many=Count(gpus, gpus))

    def nodes_of_lightning(self, words: List[str], content: str, at: int) -> Optional[int]:
        """How many nodes Lightning is told to wait for."""
        told = [(word, *words[i + 1:i + 2]) for i, word in enumerate(words)]
        for pair in told:
            option = re.fullmatch(r"(?:--|\+*)((?:\w+[./])?)num[-_]nodes(?:=(.*))?", pair[0])
            value = option.group(2) if option and option.group(2) else pair[1] if option and len(pair) > 1 else None
            if option and value and (LIGHTNING.search(content) or option.group(1)[:7] == "trainer"):
                return self.values.number(value, at)
        trainer = TRAINER.search(re.sub(r"#[^\n]*", "", content)) if LIGHTNING.search(content) else None
        number = re.search(r"\bnum_nodes\s*=\s*(\d+)\b", trainer.group(0)) if trainer else None
        return int(number.group(1)) if number else None

    def of_lightning_on_nodes(self, item: Found, words: List[str], content: str) -> Found:
        """python alone in a job of several nodes, where Lightning waits for the processes of all of them: nothing but dlrun starts these."""
        nodes, gpus = self.asked.nodes or 1, self.asked.gpus or 0
        one = re.search(r"\b(devices|gpus)[= ]+[\"']?1\b", " ".join(words + [content])) is not None
        many = gpus if gpus > nodes and gpus % nodes == 0 and not one else nodes
        self.lightning = True
        self.note(item.at, f"Lightning waits for the processes of {nodes} nodes here, of which python alone starts those of one; now dlrun starts all {many} learners")
        return item._replace(many=Count(many, many))

    def told_to_program(self, launch: launches.Launch) -> Tuple[str, List[str]]:
        """The Python program of a launch, or the file of its module, and the words of the command with the values of its variables."""
        words = [shell.unquoted(self.text[word.start:word.end]) for holder in launch.cursor.seen + launch.stack for word in holder.words]
        held = [launch.cursor.held(word) for word in words]
        modules = [name.replace(".", "/") + ".py" for option, name in zip(words, held[1:]) if option == "-m"]
        return next((value for value in modules + held if value.endswith(".py")), ""), held
