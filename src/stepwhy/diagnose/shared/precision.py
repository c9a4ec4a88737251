"""Precision of matrix kernels by their names, and the fastest one by the model of the device."""

from __future__ import annotations

import re
from typing import Literal

from stepwhy.analyse.facts import Facts
from stepwhy.base.patterns import regex

Precision = Literal["full", "lower", ""]
Faster = Literal["tf32", "bfloat16", "float16", "none", ""]

# Matrix products and convolutions of FP32 values that no lower precision computes. Source: kernel
# names of cuBLAS ('ampere_sgemm_128x64_tn', 'f32f32_f32f32_f32'), cuDNN ('volta_scudnn_128x64',
# 'dgrad_engine<float, 512', 'winogradForwardData4x4<float'), CUTLASS ('cutlass_80_simt_sgemm') and
# Tensile, which writes the types behind two indices ('Cijk_Alik_Bljk_SB' is single precision).
_FULL = regex(
    r"sgemm|scudnn|_ffma_|f32f32_f32f32|(convolve|dgrad|wgrad|winograd|fprop)\w*<float\b"
    r"|^cijk_[a-z]+_[a-z]+_sb?_"
)
# What matrix units compute, and convolutions of single channels, which they cannot. Source: as
# above; 884, 1688, 16816 and 161616 are shapes of matrix instructions, 'nvjet' is cuBLAS on Hopper.
_LOWER = regex(
    r"tensorop|[hs]884|[hs]1688|16816|161616|hmma|imma|wgmma|tf32|bf16|fp?16|half|bfloat|fp8|e4m3"
    r"|nvjet|^cijk_"
)
_BY_CHANNEL = regex(r"grouped|depthwise|c1_k1")

# What computes matrix products faster than FP32. The fastest type with the least effect on results
# comes first: TF32 needs no change of the model, but on some models is no faster than FP32. Source:
# architecture papers of NVIDIA and AMD, compute capabilities at developer.nvidia.com/cuda-gpus.
_MODELS: tuple[tuple[Faster, re.Pattern[str]], ...] = (
    (
        "bfloat16",
        regex(r"GeForce RTX [345]0\d\d|Instinct MI[123]\d\d|\b(A10G|L40)\b|RTX \d000 Ada"),
    ),
    (
        "tf32",
        regex(
            r"\b(A100|A800|A30|A10|A40|L4|L40S|H100|H200|H800|H20|GH200|B100|B200|B300"
            r"|GB[23]00)\b|RTX A\d000"
        ),
    ),
    ("float16", regex(r"\b(V100S?|GV100|T4)\b|TITAN (V|RTX)|GeForce RTX 20\d\d|Quadro RTX")),
    (
        "none",
        regex(r"\b(P100|GP100|P40|P4|K80|K40|M40|M60)\b|GeForce GTX|TITAN X|Quadro [KMP]\d"),
    ),
)


def precision_of(name: str) -> Precision:
    """Precision of a matrix kernel: 'full' for FP32, '' if its name does not show it."""
    head = name.lower().replace("(anonymous namespace)", "").replace("(int)", "")
    head = head.partition("(")[0]
    if _BY_CHANNEL.search(head):
        return ""
    is_full = _FULL.search(head)
    if is_full and (is_full[0].startswith("cijk") or not _LOWER.search(head)):
        return "full"
    return "lower" if _LOWER.search(head) else ""


def faster_type(facts: Facts) -> Faster:
    """Type in which the device computes matrix products faster than in FP32.

    'none' for a device without matrix units, '' for an unknown one, or for several that differ.
    """
    known = {_of_model(model) for model in model_names(facts)}
    return known.pop() if len(known) == 1 else ""


def model_names(facts: Facts) -> list[str]:
    """Model of each leading device, '' for an unknown one."""
    models = facts.trace.devices.model
    rows = (activity.index for activity in facts.leading)
    return [facts.trace.string(int(models[row])) if row >= 0 else "" for row in rows]


def _of_model(model: str) -> Faster:
    return next((faster for faster, pattern in _MODELS if pattern.search(model)), "")
