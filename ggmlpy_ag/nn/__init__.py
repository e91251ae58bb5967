"""Modules: layers, containers, and what describes them."""

from .module import Module

__all__ = ["Module"]
