"""Published mHC models of `transformers`, run by the operators of this package."""

from .swap import accelerate, restore

__all__ = ["accelerate", "restore"]
