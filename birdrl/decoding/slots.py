"""Keys and values of many sequences in preallocated slots, written in place.

transformers' own growing cache copies all keys and values at every token and pads all rows to the longest. Here a
sequence has a slot, its tokens start at 0, and a token costs what it weighs.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

TOKENS_PER_GROWTH = 256

Past = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of one sequence, per layer, each (heads, tokens, width)."""


class SlotCache(Cache):  # type: ignore[misc]
    """The cache of a model whose forward pass works on the slots [start, stop), set by `window` beforehand."""

    def __init__(self, layers: int) -> None:
        self.slots = self.tokens = 0  # capacity, which layers follow when they are next used
        self.range = slice(0, 0)
        self.positions = torch.empty(0, 0, dtype=torch.long)
        self.visible = 0
        super().__init__(layers=[_SlotLayer(self) for _ in range(layers)])

    def window(self, start: int, positions: torch.Tensor) -> torch.Tensor:
        """Announce a pass over slots from `start` on that writes tokens at `positions` (rows, new tokens).

        Returns its mask (rows, 1, new tokens, visible tokens): every token sees those up to its own position.
        """
        self.range = slice(start, start + len(positions))
        self.positions = positions
        self.visible = int(positions.max()) + 1
        self.reserve(self.range.stop, self.visible)
        return torch.arange(self.visible) <= positions[:, None, :, None]

    def reserve(self, slots: int, tokens: int) -> None:
        """Make room for at least so many slots of so many tokens."""
        self.slots = max(self.slots, slots)
        if tokens > self.tokens:
            self.tokens = -(-tokens // TOKENS_PER_GROWTH) * TOKENS_PER_GROWTH

    def read(self, slot: int, tokens: int) -> Past:
        """A copy of the first tokens of a slot."""
        return [(layer.keys[slot, :, :tokens].clone(), layer.values[slot, :, :tokens].clone()) for layer in self.layers]

    def write(self, slot: int, past: Past) -> None:
        """Put a past at the beginning of a slot."""
        tokens = past[0][0].shape[1]
        self.reserve(slot + 1, tokens)
        for layer, (keys, values) in zip(self.layers, past, strict=True):
            layer.grow(keys.shape[0], keys.shape[-1], values.shape[-1])
            layer.keys[slot, :, :tokens], layer.values[slot, :, :tokens] = keys, values

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Copy the first tokens of one slot into another."""
        self.reserve(target + 1, tokens)
        for layer in self.layers:
            layer.grow(layer.keys.shape[1], layer.keys.shape[-1], layer.values.shape[-1])
            layer.keys[target, :, :tokens] = layer.keys[source, :, :tokens]
            layer.values[target, :, :tokens] = layer.values[source, :, :tokens]


class _SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's keys and values, (slots, heads, tokens, width)."""

    is_sliding = False

    def __init__(self, cache: SlotCache) -> None:
        super().__init__()
        self._cache = cache
        self.keys = self.values = torch.empty(0)

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        cache = self._cache
        self.grow(keys.shape[1], keys.shape[-1], values.shape[-1])
        rows = torch.arange(cache.range.start, cache.range.stop)[:, None]
        self.keys[rows, :, cache.positions] = keys.transpose(1, 2)
        self.values[rows, :, cache.positions] = values.transpose(1, 2)
        return self.keys[cache.range, :, : cache.visible], self.values[cache.range, :, : cache.visible]

    def grow(self, heads: int, key_width: int, value_width: int) -> None:
        """Follow the cache's capacity, keeping what is there."""
        old_keys, old_values = self.keys, self.values
        if old_keys.dim() == 4 and old_keys.shape[0] >= self._cache.slots and old_keys.shape[2] >= self._cache.tokens:
            return
        self.keys = torch.zeros(self._cache.slots, heads, self._cache.tokens, key_width)
        self.values = torch.zeros(self._cache.slots, heads, self._cache.tokens, value_width)
        if old_keys.dim() == 4:
            self.keys[: old_keys.shape[0], :, : old_keys.shape[2]] = old_keys
            self.values[: old_values.shape[0], :, : old_values.shape[2]] = old_values

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.grow(key_states.shape[1], key_states.shape[-1], value_states.shape[-1])

    def get_seq_length(self) -> int:
        return 0  # positions are always given

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._cache.visible, 0

    def get_max_cache_shape(self) -> int:
        return -1
