"""Explicit randomness: a Key is a path, its child is another path, and every generator comes from the hash of one."""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Key:
    """A named source of randomness.

    `key / "data" / 3` is a child; equal paths give equal numbers on every machine and adding a draw changes no other,
    because a child depends on its name alone and not on how many numbers were drawn before.

    Example:
        >>> Key("demo").seed == (Key("demo") / "x").seed
        False
        >>> (Key("demo") / "x" / 1) == Key("demo/x/1")
        True
    """

    path: str = ""

    def __truediv__(self, name: str | int) -> "Key":
        return Key(f"{self.path}/{name}")

    @property
    def seed(self) -> int:
        """63-bit integer from the BLAKE2 hash of the path."""
        digest = hashlib.blake2b(self.path.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1

    def torch(self, device: str | torch.device = "cpu") -> torch.Generator:
        """A new torch generator on `device`."""
        return torch.Generator(device=device).manual_seed(self.seed)

    def numpy(self) -> np.random.Generator:
        """A new numpy generator."""
        return np.random.default_rng(self.seed)
