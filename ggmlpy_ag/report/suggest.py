"""Which layers to checkpoint, so that memory gets under a target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..backend.memory import format_bytes
from ..paths import SeveralResults, named
from .what_if import own_layers, what_if

if TYPE_CHECKING:
    from .tape_report import TapeReport

Measure = Callable[[Sequence[str]], int]


@dataclass(frozen=True)
class Suggestion:
    """Layers to checkpoint, for `ag.nn.checkpointed`, and what that does.

    Attributes:
        layers: their paths; none where nothing has to be done.
        before: bytes now: the highest peak of two steps (`Estimate.suggest`), or what only the tape keeps
            (`TapeReport.suggest`).
        after: these bytes then.
        multiply_adds: that would be computed again in each backward pass.
        share: these, as a part of all multiply-adds of the forward pass.
    """

    layers: tuple[str, ...]
    before: int
    after: int
    multiply_adds: int
    share: float

    def __str__(self) -> str:
        if not self.layers:
            return f"nothing to checkpoint: {format_bytes(self.before)}"
        change = f"{format_bytes(self.before)} -> {format_bytes(self.after)}"
        return f"checkpoint {named(self.layers)}: {change}, {self.share:.0%} of the forward multiply-adds again"


def suggest(report: TapeReport, target: int, before: int, layers: Iterable[str], measure: Measure) -> Suggestion:
    """The cheapest layers to checkpoint that were found, all of one depth in the tree of modules.

    At each depth the layers are ranked by the bytes that they release for each multiply-add that they compute again.
    The fewest of the first ones that get to the target are taken, and of these left out what is not needed.

    Args:
        report: of the tape without any of it.
        target: the bytes to get to.
        before: the bytes without any of it.
        layers: the paths to choose from.
        measure: the bytes with such layers checkpointed. Raises SeveralResults for a layer that cannot be.

    Raises:
        ValueError: no choice gets there; the message has the best one. TypeError: target is no integer.
    """
    if isinstance(target, bool) or not isinstance(target, int):
        raise TypeError(f"suggest: target_bytes must be an integer, not {target!r}")
    if before <= target:
        return Suggestion((), before, before, 0, 0.0)
    found: list[Suggestion] = []
    lowest, best = before, "as it is"
    for ranked in _by_depth(report, layers):
        reached = _without_unfit(ranked, measure)
        if ranked and reached <= target:
            found.append(_fewest(report, ranked, target, before, measure))
        elif reached < lowest:
            lowest, best = reached, f"with {named(ranked)} checkpointed"
    if not found:
        raise ValueError(
            f"suggest: no layers were found that get to {target} bytes; the best is {lowest} bytes, {best}"
        )
    return min(found, key=lambda suggestion: (suggestion.multiply_adds, suggestion.after))


def suggest_for_tape(report: TapeReport, target: int) -> Suggestion:
    """See `TapeReport.suggest`."""
    before = what_if(report, []).before
    return suggest(report, target, before, own_layers(report), lambda paths: what_if(report, paths).after)


def _by_depth(report: TapeReport, layers: Iterable[str]) -> list[list[str]]:
    """The layers of each depth that release anything, what is worth most first."""
    depths: dict[int, dict[str, float]] = {}
    for path in layers:
        found = what_if(report, path)
        if found.after < found.before:
            worth = (found.before - found.after) / max(1, found.multiply_adds)
            depths.setdefault(path.count(".") if path else -1, {})[path] = worth
    return [sorted(worths, key=worths.__getitem__, reverse=True) for _, worths in sorted(depths.items())]


def _without_unfit(ranked: list[str], measure: Measure) -> int:
    """The bytes with all of these checkpointed, once those that cannot be have been taken from the list."""
    while True:
        try:
            return measure(ranked)
        except SeveralResults as error:
            if error.path not in ranked:
                raise
            ranked.remove(error.path)


def _fewest(report: TapeReport, ranked: Sequence[str], target: int, before: int, measure: Measure) -> Suggestion:
    low, high = 0, len(ranked)  # so many of the first ones are too few; so many are enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if measure(ranked[:middle]) <= target else (middle, high)
    chosen = list(ranked[:high])
    for path in sorted(chosen, key=lambda path: what_if(report, path).multiply_adds, reverse=True):
        fewer = [other for other in chosen if other != path]
        if fewer and measure(fewer) <= target:
            chosen = fewer
    work = what_if(report, chosen)
    return Suggestion(tuple(chosen), before, measure(chosen), work.multiply_adds, work.share)


__all__ = ["Suggestion"]
