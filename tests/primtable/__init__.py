"""The primitives' table: what each primitive gives, in which layouts, and where ggml's backends differ.

A file for a kind of primitive. test_primitives.py makes its checks from the entries; a primitive without an entry
fails the tests. Primitives that write their operands are tested there directly.
"""

from . import casts, elementwise, moving, products, rows, sums, windows

ENTRIES = [entry for module in (elementwise, sums, rows, moving, casts, products, windows) for entry in module.ENTRIES]
