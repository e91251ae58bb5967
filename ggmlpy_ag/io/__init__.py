"""Files: tensors in the safetensors format, and checkpoints that a run goes on from. Nothing is pickled."""

from .checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from .safetensors import FileFormatError
from .tensors import load, load_metadata, save

__all__ = ["Checkpoint", "FileFormatError", "load", "load_checkpoint", "load_metadata", "save", "save_checkpoint"]
