# SPDX-License-Identifier: Apache-2.0
"""Reads the file of `accelerate launch --config_file`: variables for the program, and the number of processes."""
import os
from typing import Any, Dict, List, Optional, Tuple

DEEPSPEED = {
    "deepspeed_config_file": "ACCELERATE_DEEPSPEED_CONFIG_FILE", "zero_stage": "ACCELERATE_DEEPSPEED_ZERO_STAGE",
    "gradient_accumulation_steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "gradient_clipping": "ACCELERATE_GRADIENT_CLIPPING",
    "offload_optimizer_device": "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", "offload_param_device": "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE",
    "zero3_init_flag": "ACCELERATE_DEEPSPEED_ZERO3_INIT", "zero3_save_16bit_model": "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL"}


def environment_of(path: str, folder: str) -> Tuple[Optional[List[Tuple[str, str]]], Optional[int]]:
    """The variables and the number of processes. The variables are None if the file cannot be read here or PyYAML is
    missing."""
    try:
        import yaml
        with open(os.path.join(folder, path), encoding="utf-8") as file:
            config: Any = yaml.safe_load(file)
    except (ImportError, OSError, ValueError):
        return None, None
    except Exception:  # yaml.YAMLError, which cannot be named if the module is missing
        return None, None
    if not isinstance(config, dict):
        return None, None
    found: Dict[str, str] = {}
    if config.get("mixed_precision") not in (None, "no", False):
        found["ACCELERATE_MIXED_PRECISION"] = str(config["mixed_precision"])
    kind = str(config.get("distributed_type", ""))
    if kind == "DEEPSPEED":
        found["ACCELERATE_USE_DEEPSPEED"] = "true"
        for key, value in (config.get("deepspeed_config") or {}).items():
            if key in DEEPSPEED and value is not None:
                found[DEEPSPEED[key]] = _text(value)
    if kind == "FSDP":
        found["ACCELERATE_USE_FSDP"] = "true"
        for key, value in (config.get("fsdp_config") or {}).items():
            if value is not None:
                found[str(key).upper()] = _text(value)
    processes = config.get("num_processes")
    return list(found.items()), processes if isinstance(processes, int) else None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
