"""What is in memory, and why."""

from .storages import StorageRow, SumRow
from .tape_memory import TapeReport, tape_memory

__all__ = ["StorageRow", "SumRow", "TapeReport", "tape_memory"]
