"""Places slices in partitions, so that all partitions get about as many calls.

Spark partitions by a hash of its own. Numbers whose hashes lead to each of the partitions make that
even; by any other hash, the audit would be the same.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace
from itertools import count
from typing import Final

from detectors.distributed.spark.tasks import SLICES

_SEED: Final = 42
_MASK: Final = 0xFFFFFFFF


def find_keys(sizes: Mapping[int, int], parts: int) -> tuple[list[frozenset[int]], list[int]]:
    """Return the slices of each part, and for each slice the number to partition by.

    The largest slices are placed first, each where the fewest calls are.
    """
    places = [(0, part) for part in range(parts)]
    heapify(places)
    part_of = {}
    for number in sorted(sizes, key=lambda each: (-sizes[each], each)):
        calls, part = places[0]
        part_of[number] = part
        heapreplace(places, (calls + sizes[number], part))
    numbers = _find_numbers(parts)
    own = [frozenset(n for n, part in part_of.items() if part == each) for each in range(parts)]
    return own, [numbers[part_of.get(number, 0)] for number in range(SLICES)]


def _find_numbers(parts: int) -> Sequence[int]:
    """Return a number for each partition whose hash leads to it."""
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(_hash(number) % parts, number)
        if len(found) == parts:
            return [found[part] for part in range(parts)]
    raise AssertionError


def _hash(number: int) -> int:
    """Return Spark's hash of an integer of 32 bits, which is Murmur3, as a signed number."""
    mixed = number * 0xCC9E2D51 & _MASK
    mixed = _rotate(mixed, 15) * 0x1B873593 & _MASK
    found = (_rotate(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    found ^= 4
    found = (found ^ found >> 16) * 0x85EBCA6B & _MASK
    found = (found ^ found >> 13) * 0xC2B2AE35 & _MASK
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK
