"""What a limit on a device's memory may be: bytes, or a share of what the device has."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

VARIABLE = "GGMLPY_AG_MEMORY_LIMIT"


def limit_bytes(limit: Any, total: int) -> int | None:
    """A limit in bytes, where a float is a share of `total`. Raises ValueError or TypeError; see `set_memory_limit`."""
    if limit is None:
        return None
    if isinstance(limit, (int, np.integer)) and not isinstance(limit, bool):
        if limit < 1:
            raise ValueError(f"limit must be at least 1 byte, not {limit}")
        return int(limit)
    if not isinstance(limit, (float, np.floating)):
        raise TypeError(f"limit must be bytes (int), a share of the device's memory (float) or None, not {limit!r}")
    if not 0.0 < limit <= 1.0:
        raise ValueError(f"limit must be above 0 and at most 1 as a share of the device's memory, not {limit}")
    if not total:
        raise ValueError("limit cannot be a share: this device does not say how much memory it has; give bytes")
    return max(1, int(limit * total))


def limit_from_environment(total: int) -> int | None:
    """The limit that GGMLPY_AG_MEMORY_LIMIT sets for every device: bytes such as 2147483648, or a share such as 0.5."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    try:
        return limit_bytes(int(text) if text.isdigit() else float(text), total)
    except ValueError as error:
        raise ValueError(f"{VARIABLE}={text!r}: {error}") from None
