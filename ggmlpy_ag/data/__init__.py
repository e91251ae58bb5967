"""Data: batches from arrays, sequences and generators, prepared ahead in a thread; splits and sampling."""

from .collate import default_collate
from .loader import DataLoader
from .sampler import WeightedSampler
from .sources import Subset, random_split

__all__ = ["DataLoader", "Subset", "WeightedSampler", "default_collate", "random_split"]
