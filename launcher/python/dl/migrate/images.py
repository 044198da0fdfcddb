# SPDX-License-Identifier: Apache-2.0
"""Images of a registry, which srun --container-image pulls by itself (pyxis): the batch script pulls them into a file that dlrun --image
takes. Pure."""
import re
from typing import List

# [docker://][REGISTRY#]IMAGE[:TAG] as pyxis has it; a registry may also stand in front of a slash. Variables may be part of it.
OF_REGISTRY = re.compile(r"(?:docker://)?[A-Za-z0-9][\w.-]*(?::\d+(?=[/#]))?(?:[/#][\w.$\{}-]+)*(?:[:@][\w.$\{}:-]+)?")
FOLDER = "${APPTAINER_CACHEDIR:-$HOME/.apptainer}"
# Of a mount's flags, those that Apptainer has, too.
MOUNTS = re.compile(r"[^:,\s]+(:[^:,\s]+(:r[ow])?)?(,[^:,\s]+(:[^:,\s]+(:r[ow])?)?)*")


def is_of_registry(value: str) -> bool:
    """Whether the value of --container-image, or the default in ${NAME:-VALUE}, names an image of a registry."""
    default = re.fullmatch(r"\$\{\w+:?-(.*)\}", value)
    value = default.group(1) if default else value
    return OF_REGISTRY.fullmatch(value) is not None and re.search(r"[/#:]", value) is not None and not re.search(r"\.(sqsh|sqfs|squashfs|sif|img)$", value)


def pulled(raw: str, indent: str) -> str:
    """Lines that pull the image once, and set dl_image to its file. `raw`: a word of the script."""
    name = raw.strip("\"'")
    if "$" not in name:
        url = "docker://" + name.replace("docker://", "").replace("#", "/")
        lines: List[str] = [f"dl_image={FOLDER}/{re.sub('[^A-Za-z0-9.-]', '_', url[9:])}.sif"]
    else:
        variable = re.fullmatch(r"\$\{?(\w+)\}?", name)
        lines = [f"dl_url={'$' + variable.group(1) if variable else name}; dl_url=${{dl_url#docker://}}; dl_url=${{dl_url/\\#//}}",
                 f"dl_image={FOLDER}/${{dl_url//[^A-Za-z0-9.-]/_}}.sif"]
        url = '"docker://$dl_url"'
    lines.append(f'[ -e "$dl_image" ] || {{ mkdir -p "${{dl_image%/*}}" && apptainer pull "$dl_image" {url}; }}')
    return "".join(f"{indent}{line}\n" for line in lines)
