"""Fingerprints of the values of tensors: what equal values share."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def fingerprint(tensor: Any) -> tuple[Any, ...] | None:
    """Shape, type and two checksums of a tensor; None if it cannot be read like this."""
    if not tensor.is_sparse:
        return _of_dense(tensor)
    if not tensor.is_coalesced():
        return None
    parts: Sequence[Any] = (tensor.detach().indices(), tensor.detach().values())
    return tuple(_of_dense(part) for part in parts)


def bytes_of(tensor: Any) -> int:
    """Size of the values of a tensor, with the indices of a sparse one, coalesced."""
    parts = [tensor]
    if tensor.is_sparse:
        whole = tensor.detach().coalesce()
        parts = [whole.indices(), whole.values()]
    return sum(part.numel() * part.element_size() for part in parts)


def _of_dense(tensor: Any) -> tuple[Any, ...]:
    import torch

    plain = tensor.detach().cpu().contiguous().reshape(-1)
    data = plain.view(torch.uint8).numpy() if plain.numel() else b""
    return tuple(tensor.shape), tensor.dtype, zlib.crc32(data), zlib.adler32(data)
