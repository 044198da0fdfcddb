# SPDX-License-Identifier: Apache-2.0
"""Images of a registry, which srun --container-image pulls by itself (pyxis): the batch script pulls them into a file that dlrun --image
takes. Pure."""
import re
from typing import List

from .shell import unquoted

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
    """Lines that pull the image once, and set dl_image to its file. `raw`: a word of the script; what a variable holds may be a file
    already. A pull that is interrupted leaves no file of that name."""
    name = unquoted(raw)
    if "$" not in name:
        url = "docker://" + name.replace("docker://", "").replace("#", "/")
        lines: List[str] = [f"dl_image={FOLDER}/{re.sub('[^A-Za-z0-9.-]', '_', url[9:])}.sif"]
    else:
        url = '"docker://$dl_url"'
        lines = [f"dl_url={raw}; dl_file=$dl_url; dl_url=${{dl_url#docker://}}; dl_url=${{dl_url/\\#//}}",
                 f'dl_image={FOLDER}/${{dl_url//[^A-Za-z0-9.-]/_}}.sif; [ ! -e "$dl_file" ] || dl_image=$dl_file']
    lines.append(f'[ -e "$dl_image" ] || {{ mkdir -p "${{dl_image%/*}}" && apptainer pull --force "$dl_image.${{SLURM_JOB_ID-$$}}" {url} && '
                 'mv "$dl_image.${SLURM_JOB_ID-$$}" "$dl_image"; }')
    return "".join(f"{indent}{line}\n" for line in lines)


def for_here_document(script: str) -> str:
    """The script with what pulled() and --image have added left to the shell of the job, where another shell writes the script down."""
    def of_job(line: str) -> str:
        given, behind, rest = line.partition("; ") if re.match(r"[ \t]*dl_url=", line) else ("", "", line)
        return given + behind + rest.replace("$", "\\$")
    lines = [of_job(line) if re.match(r'[ \t]*(dl_url=|dl_image=|\[ -e "\$dl_image" \])', line) else line for line in script.split("\n")]
    return "\n".join(lines).replace('--image "$dl_image"', '--image "\\$dl_image"').replace("bash -c 'cd \"$0\"", "bash -c 'cd \"\\$0\"")
