"""Sampling of languages, so that small ones are not drowned."""

from collections.abc import Mapping

from unmask.errors import ConfigError


def sampling_weights(sizes: Mapping[str, float], alpha: float) -> dict[str, float]:
    """The probability of each language, q ∝ pᵅ: 1 keeps the natural shares, 0 makes all equal.

    A language without text has weight 0.
    """
    if not 0 <= alpha <= 1:
        raise ConfigError(f"alpha is {alpha}: give a number from 0 (all languages alike) to 1 (as they come)")
    if any(size < 0 for size in sizes.values()):
        raise ConfigError("the size of a language cannot be negative")
    total = sum(sizes.values())
    if not total:
        raise ConfigError("no text in any language: nothing to sample from")
    powers = {name: (size / total) ** alpha if size else 0.0 for name, size in sizes.items()}
    norm = sum(powers.values())
    return {name: power / norm for name, power in powers.items()}
