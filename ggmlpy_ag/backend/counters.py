"""Counters of what crossed between host and device, and what ran."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Counters:
    """Figures since the start or the last reset; two of them subtract.

    `uploads`, `downloads`: copies from and to host memory, with their bytes (for the CPU device too: a copy between
    NumPy and ggml memory). `graphs`, `nodes`: graphs run and operations in them. `fallbacks`: operations that the
    device could not run and the CPU did.
    """

    uploads: int = 0
    upload_bytes: int = 0
    downloads: int = 0
    download_bytes: int = 0
    graphs: int = 0
    nodes: int = 0
    fallbacks: int = 0

    def __sub__(self, other: Counters) -> Counters:
        return Counters(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))

    def __str__(self) -> str:
        return (
            f"{self.uploads} uploads ({self.upload_bytes} bytes), {self.downloads} downloads "
            f"({self.download_bytes} bytes), {self.graphs} graphs, {self.nodes} nodes, {self.fallbacks} fallbacks"
        )


COUNTS = Counters()


def counters(reset: bool = False) -> Counters:
    """The figures of all devices together, as a copy; `reset=True` sets them to zero afterwards."""
    now = COUNTS - Counters()
    if reset:
        for field in fields(COUNTS):
            setattr(COUNTS, field.name, 0)
    return now
