"""The primitives' table: what each primitive gives, in which layouts, and where ggml's backends differ.

A file for a kind of primitive. test_primitives.py makes its checks from the entries; a primitive without an entry
fails the tests. Primitives that write their operands are tested there directly.
"""

from . import casts, elementwise, moving, products, rows
from .layouts import WAYS, allowed, forbidden, lay, place, stored
from .table import LLVMPIPE, MANY, TYPES, Difference, Entry, Sample, floats, halves, normal, patterns, same

ENTRIES = [entry for module in (elementwise, rows, moving, casts, products) for entry in module.ENTRIES]

__all__ = ["ENTRIES", "LLVMPIPE", "MANY", "TYPES", "WAYS", "Difference", "Entry", "Sample", "allowed", "floats", "forbidden",
           "halves", "lay", "normal", "patterns", "place", "same", "stored"]  # fmt: skip
