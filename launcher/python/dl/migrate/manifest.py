# SPDX-License-Identifier: Apache-2.0
"""Turns a manifest.yml of FfDL into a batch script. Credentials are never copied. Pure, except that it loads PyYAML."""
import math
import re
from typing import Any, Dict, List, NamedTuple, Optional

# Frameworks that the catalogue has under another name than FfDL. All others keep their names.
FRAMEWORKS = {"caffe": "generic", "caffe2": "generic", "torch": "generic", "theano": "generic", "h2o3": "generic", "custom": "generic", "mxnet": "generic",
              "pytorchmpi": "pytorch", "tensorflow": "tensorflow", "pytorch": "pytorch", "horovod": "horovod"}
UNITS = {"": 1, "b": 1, "k": 1000, "kb": 1000, "ki": 1024, "kib": 1024, "m": 1000 ** 2, "mb": 1000 ** 2, "mi": 1024 ** 2, "mib": 1024 ** 2,
         "g": 1000 ** 3, "gb": 1000 ** 3, "gi": 1024 ** 3, "gib": 1024 ** 3, "t": 1000 ** 4, "tb": 1000 ** 4, "ti": 1024 ** 4, "tib": 1024 ** 4}
# CPUs of a learner if the manifest does not give them. They are needed if it gives memory, which is asked for by CPU.
FFDL_CPUS = 5
KNOWN = {"name", "description", "version", "gpus", "cpus", "memory", "learners", "data_stores", "framework", "evaluation_metrics", "gpu_type", "storage",
         "schedpolicy", "size", "profiling", "emetrics"}


class Broken(ValueError):
    """This is no manifest; the text gives the reason."""


class Script(NamedTuple):
    text: str
    learners: int
    gpus: int
    framework: str
    notes: List[str]


def is_manifest(text: str, path: str) -> bool:
    return path.endswith((".yml", ".yaml")) or (not text.startswith("#!") and re.search(r"^framework:\s*$", text, re.M) is not None)


def migrate(text: str) -> Script:
    """Raises Broken if the text is no manifest, and ImportError without PyYAML."""
    import yaml
    try:
        manifest: Any = yaml.safe_load(text)
    except RecursionError:
        raise Broken("it is not YAML as manifests have it: its sections lie too deep in one another") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that does not exist
        raise Broken(f"it is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("framework"), dict):
        raise Broken("it has no section 'framework', so it is not a manifest of FfDL")
    return _Manifest(manifest).script()


class _Manifest:
    def __init__(self, manifest: Dict[str, Any]):
        self.manifest = manifest
        self.notes: List[str] = []
        self.setup: List[str] = []

    def script(self) -> Script:
        framework: Dict[str, Any] = self.manifest["framework"]
        command = " ".join(_text(framework, "command", "framework.").split())
        if not command:
            raise Broken("framework.command is missing: it is what each learner runs")
        learners = self.whole("learners", 1)
        gpus = self.whole("gpus", 0)
        for key in self.manifest:
            if key not in KNOWN:
                self.notes.append(f"{key}: is not a key that is known, and is left out")
        name = self.framework(framework)
        flags = [f"--dl-framework={name} --dl-learners={learners} --dl-gpus={self.gpu_type(gpus)}{gpus}"]
        memory = self.memory()
        cpus = math.ceil(self.number("cpus", 0)) or (FFDL_CPUS if memory else 0)
        if cpus:
            flags.append(f"--cpus-per-task={cpus}")
        if memory:
            flags.append(f"--mem-per-cpu={math.ceil(memory / cpus / 1024 ** 2)}M")
        if self.manifest.get("schedpolicy") in ("spread", "dense"):
            flags.append(f"--dl-placement={'spread' if self.manifest['schedpolicy'] == 'spread' else 'pack'}")
        for key in ("storage", "size", "profiling"):
            if self.manifest.get(key):
                self.notes.append(f"{key}: {self.manifest[key]} has no counterpart in slurm-dl, and is left out")
        self.data_stores()
        self.metrics()
        lines = ["#!/bin/bash"]
        description = " ".join(_text(self.manifest, "description").split())
        if description:
            lines += ["# " + description]
        job = re.sub(r"[^\w.-]+", "-", _text(self.manifest, "name")).strip("-") or "training"
        lines += [f"#SBATCH --job-name={job}"] + [f"#SBATCH {flag}" for flag in flags] + self.setup
        lines.append("# Names such as $DATA_DIR are for each learner to expand.")
        lines.append("exec dlrun -- bash -c " + "'" + command.replace("'", "'\\''") + "'")
        return Script("\n".join(lines) + "\n", learners, gpus, name, self.notes)

    def number(self, key: str, otherwise: float) -> float:
        value = self.manifest.get(key, otherwise)
        try:
            if isinstance(value, bool):
                raise TypeError
            number = float(otherwise if value is None else value)
        except (TypeError, ValueError):
            raise Broken(f"{key}: {value!r} is not a number") from None
        if not 0 <= number <= 1_000_000:
            raise Broken(f"{key}: {value!r} is not a number from 0 to 1000000")
        return number

    def whole(self, key: str, otherwise: int) -> int:
        value = self.number(key, otherwise)
        if value != int(value):
            self.notes.append(f"{key}: {value:g} is rounded up: parts of it are not given here")
        return math.ceil(value)

    def framework(self, framework: Dict[str, Any]) -> str:
        name, version = _text(framework, "name", "framework.").lower() or "generic", _text(framework, "version", "framework.")
        ours = FRAMEWORKS.get(name, name)
        if ours != name:
            self.notes.append(f"framework {name}: it runs as '{ours}'")
        if version and name == "custom":
            self.notes.append(f"the image {version} is left out: --dl-image takes a folder or a file (*.sqsh, *.sif) of it")
        elif version:
            self.notes.append(f"framework version {version}: the site's own is taken; dlctl frameworks lists versions, --dl-framework={ours}:VERSION chooses one")
        if framework.get("image_location") or framework.get("image_tag"):
            self.notes.append("framework.image_location, image_tag: left out; --dl-image takes a folder or a file (*.sqsh, *.sif) of the image")
        return ours

    def gpu_type(self, gpus: int) -> str:
        kind = _text(self.manifest, "gpu_type")
        if not kind or not gpus or kind.upper() == "CPU":
            return ""
        short = re.sub(r"^nvidia-?(tesla-?)?", "", kind, flags=re.I).lower()
        self.notes.append(f"gpu_type: {kind} is written as '{short}'; sinfo -o %G lists how this cluster calls its types")
        return short + ":"

    def memory(self) -> Optional[int]:
        text = self.manifest.get("memory")
        if text is None:
            return None
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(text).lower())
        if not match or match.group(2) not in UNITS:
            raise Broken(f"memory: {text!r} is not a size; allowed: 4GB, 1024mb, 1Gi and the like")
        return int(float(match.group(1)) * UNITS[match.group(2)])

    def data_stores(self) -> None:
        stores = self.manifest.get("data_stores")
        stores = [] if stores is None else stores
        if not isinstance(stores, list) or any(not isinstance(store, dict) for store in stores):
            raise Broken("data_stores: it is not a list of stores")
        for number, store in enumerate(stores):
            if number > 0:
                self.notes.append(f"data_stores: FfDL took the first alone; '{store.get('id', number)}' is left out")
                break
            self.data_store(store)

    def data_store(self, store: Dict[str, Any]) -> None:
        kind = _text(store, "type", "data_stores: ")
        connection = _section(store, "connection")
        for variable, key, what in (("DATA_DIR", "training_data", "read"), ("RESULT_DIR", "training_results", "written")):
            container = _text(_section(store, key), "container", f"data_stores: {key}.")
            if not container:
                continue
            path = _text(connection, "path", "data_stores: connection.")
            if kind == "mount_volume" and path:
                folder = f"{path.rstrip('/')}/{container}".rstrip("/")
                self.setup.append(f"export {variable}={_word(folder)}" + ("/$SLURM_JOB_ID" if variable == "RESULT_DIR" else ""))
                if variable == "RESULT_DIR":
                    self.setup.append('mkdir -p "$RESULT_DIR"')
            elif variable == "DATA_DIR":
                self.setup += [f"# The bucket '{container}' of the store '{store.get('id', kind)}': copy it to a file system that all nodes see.",
                               f'export DATA_DIR="${{DATA_DIR:?the folder with the data of {container}: sbatch --export=ALL,DATA_DIR=/PATH}}"']
                self.notes.append(f"data_stores: '{container}' is in a store of type {kind or '?'}; copy it once, and give its folder as DATA_DIR; "
                                  f"or give --dl-data=REMOTE:{container}, REMOTE being a store of your rclone configuration")
            else:
                self.notes.append(f"data_stores: results go to $RESULT_DIR of the job directory, not to '{container}'; copy what you want to keep, "
                                  f"or give --dl-results=REMOTE:{container}, REMOTE being a store of your rclone configuration")
        if connection.get("user_name") or connection.get("password"):
            self.notes.append("data_stores: user name and password are not copied")

    def metrics(self) -> None:
        metrics = self.manifest.get("evaluation_metrics")
        if not metrics:
            return
        kind = metrics.get("type", "?") if isinstance(metrics, dict) else "?"
        where = metrics.get("in") if isinstance(metrics, dict) else None
        self.setup.append(f"# evaluation_metrics: {kind}" + (f", read from {' '.join(str(where).split())}" if where else ""))
        self.notes.append(f"evaluation_metrics: type {kind} is kept as a comment; a program reports metrics by dlckpt (dlckpt-python(3))")


def _text(section: Dict[str, Any], key: str, where: str = "") -> str:
    """The value as text; empty if the key is missing. A number is printed as YAML has read it."""
    value = section.get(key)
    if value is None:
        return ""
    if isinstance(value, (bool, dict, list, set, bytes)):
        raise Broken(f"{where}{key}: {value!r} is no text; allowed: text, in quotes where YAML would read something else")
    return str(value)


def _section(store: Dict[str, Any], key: str) -> Dict[str, Any]:
    value = store.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Broken(f"data_stores: {key}: {value!r} is no section; allowed: keys and values below it")
    return value


def _word(text: str) -> str:
    return text if re.fullmatch(r"[\w./:@%+=-]+", text) else "'" + text.replace("'", "'\\''") + "'"
