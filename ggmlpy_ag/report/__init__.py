"""What is in memory, and why."""

from ..backend.errors import explainers
from .advice import advice
from .difference import Difference
from .estimate import DevicePeak, Estimate, estimate, largest_batch
from .events import Event
from .holders import Holder, holders
from .leaks import LeakReport, LeakRow, memory_leaks
from .moment import LiveRow, Moment
from .storages import StorageRow, SumRow
from .suggest import Suggestion
from .tape_memory import tape_memory
from .tape_report import TapeReport
from .timeline import Timeline, memory_timeline
from .what_if import WhatIf

explainers.append(advice)

__all__ = [
    "DevicePeak",
    "Difference",
    "Estimate",
    "Event",
    "Holder",
    "LeakReport",
    "LeakRow",
    "LiveRow",
    "Moment",
    "StorageRow",
    "Suggestion",
    "SumRow",
    "TapeReport",
    "Timeline",
    "WhatIf",
    "estimate",
    "holders",
    "largest_batch",
    "memory_leaks",
    "memory_timeline",
    "tape_memory",
]
