"""What can go wrong on a device, as exceptions.

GgmlError(RuntimeError)          a device refused or failed
  OutOfMemoryError(MemoryError too)   no memory left for a block
  FallbackError                  an operation the device cannot run, with fallback "error"
"""


class GgmlError(RuntimeError):
    """A device refused to run a graph, or failed while it ran."""


class OutOfMemoryError(GgmlError, MemoryError):
    """A device has no memory left; the message names the largest holders. Everything computed so far is intact."""


class FallbackError(GgmlError):
    """An operation cannot run on its device, and `set_fallback("error")` forbids computing it on the CPU."""
