"""TASK-043: identifiers are unique and cannot be guessed; those drawn later sort later, for the sake of the indexes."""

from __future__ import annotations

import pytest

from protocol3.contract.limits import ID_BYTES
from protocol3.core.verdict import Fresh

NOW = 1_700_000_000_000
PREFIXES = ("task", "run", "att", "lease", "evt", "ws", "wf", "obl")
#: Where the instant ends and the random part begins.
INSTANT, RANDOM = 12, 32


def seed(n: int) -> bytes:
    return n.to_bytes(16, "big")


def random_part(identifier: str) -> str:
    return identifier.partition("_")[2][INSTANT:]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_they_are_short_text_of_one_form(prefix):
    drawn = Fresh(seed(1), NOW)(prefix)
    kind, _, digits = drawn.partition("_")
    assert kind == prefix
    assert len(digits) == INSTANT + RANDOM
    assert digits == digits.lower()
    assert int(digits, 16) >> 4 * RANDOM == NOW
    assert len(drawn.encode()) <= ID_BYTES


def test_those_of_later_decisions_sort_after_earlier_ones():
    """By bytes, as the database compares them, whatever the seeds are and however many digits the instants have."""
    instants = [0, 1, 0xFF, 0x100, NOW, NOW + 1, NOW + 15, NOW + 16, NOW + 1_000_000, 2**48 - 1]
    drawn = [Fresh(seed(97 * n % 10), instant)("task").encode() for n, instant in enumerate(instants)]
    assert drawn == sorted(drawn)


def test_every_bit_of_the_random_part_follows_from_the_seed():
    """Whoever knows the instant and the place in the decision still lacks 128 bits."""
    parts = [int(random_part(Fresh(seed(n), NOW)("lease")), 16) for n in range(64)]
    zeros, ones = 0, 0
    for part in parts:
        ones |= part
        zeros |= ~part
    everything = 2**128 - 1
    assert ones == everything
    assert zeros & everything == everything


def test_one_decision_draws_apart():
    """Neither the prefix nor the instant is what tells them apart: no identifier follows from another."""
    fresh = Fresh(seed(1), NOW)
    parts = [random_part(fresh(prefix)) for _ in range(100) for prefix in PREFIXES]
    assert len(set(parts)) == len(parts)


def test_the_instant_is_no_part_of_the_randomness():
    """The seed alone decides, so a repeated instant or a clock set back takes nothing from it."""
    assert random_part(Fresh(seed(1), NOW)("task")) == random_part(Fresh(seed(1), NOW + 1)("task"))
    assert random_part(Fresh(seed(1), NOW)("task")) != random_part(Fresh(seed(2), NOW)("task"))
