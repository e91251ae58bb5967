"""What is in memory, and why."""

from .tape_memory import OpRow, TapeReport, tape_memory

__all__ = ["OpRow", "TapeReport", "tape_memory"]
