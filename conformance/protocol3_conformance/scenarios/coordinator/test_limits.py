"""Every bound of a message one below, at and one above: one check for each message and field of the limit vectors.

What fits is accepted and read back as it was sent; what does not is refused by the contract's status and code and
leaves everything as it was. The first field of each limit is tried in every flavour of text or value (ASCII,
multi-byte, escaped, nested…), the others in one that the seed draws: all of all would take more than half as many
exchanges again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.bounded import World, decide, expected_code, read_back, seen, send
from protocol3_conformance.scenario import Body, scenario
from protocol3_conformance.vectors import limit_messages, limit_recipes
from protocol3_spec import boundaries

Recipe = dict[str, Any]
SCOPED = ("tenant_id", "namespace", "idempotency_key")
"""Their values at the bound are the same in every run, so they need a scope that no other run has."""


COUNTED = ("JSON-050", "JSON-051", "JSON-052", "JSON-053")
"""How bytes are counted."""


def in_every_flavour(recipe: Recipe) -> bool:
    """Whether it is the first field of its limit."""
    kind = (recipe.get("limit"), recipe["unit"], recipe.get("text"))
    first = next(each for each in limit_recipes() if kind == (each.get("limit"), each["unit"], each.get("text")))
    return "limit" in recipe and recipe is first


def counts_bytes(recipe: Recipe) -> bool:
    """Whether its check shows how bytes are counted."""
    return in_every_flavour(recipe) and recipe["unit"] == "compact"


def drawn(lab: Lab, recipe: Recipe) -> list[boundaries.Case]:
    """The cases of one flavour of the recipe, or of all."""
    if in_every_flavour(recipe):
        return list(boundaries.cases(recipe))
    flavour = lab.random.choice(boundaries.flavours(recipe))
    return [case for case in boundaries.cases(recipe) if case.flavour == flavour]


async def try_message(lab: Lab, recipe: Recipe) -> None:
    """Refusals first, which must change nothing; then what fits, each in a world of its own; then the plain message."""
    message = limit_messages()[recipe["message"]]
    world = await World.prepared(lab, message["needs"])
    before = await seen(world)
    cases = drawn(lab, recipe)
    for case in cases:
        code = expected_code(case) if case.fits else "invalid_input"
        if code is None:
            continue
        with lab.case(f"{recipe['field'] or 'body'}: {case.units} of {recipe['unit']}, {case.flavour}"):
            answer, _ = await send(world, recipe, case)
            answer.refused(code, 413 if not case.fits and recipe.get("refused") == "too_large" else None)
    assert await seen(world) == before, "a refused message changed something"
    for case in cases:
        if case.fits and expected_code(case) is None:
            with lab.case(f"{recipe['field'] or 'body'}: {case.units} of {recipe['unit']}, {case.flavour}"):
                answer, sent = await send(world, recipe, case)
                await read_back(world, recipe["message"], sent, answer.accepted())
            world = await World.prepared(lab, message["needs"])
    answer, _ = await send(world, recipe)
    answer.refused(message["reply"]) if "reply" in message else answer.accepted()


async def try_decision(lab: Lab, recipe: Recipe) -> None:
    """A settlement takes every decision within its own limits; one beyond its bounds fails its workflow, unapplied."""
    for case in drawn(lab, recipe):
        with lab.case(f"{recipe['field']}: {case.units} of {recipe['unit']}, {case.flavour}"):
            await decide(await World.prepared(lab, "activation"), case)


def body_of(recipes: list[Recipe]) -> Body:
    attempt = try_decision if "decision" in limit_messages()[recipes[0]["message"]] else try_message

    async def body(lab: Lab) -> None:
        for recipe in recipes:
            await attempt(lab, recipe)

    first = recipes[0]
    body.__doc__ = f"Bounds of {first['field'] or 'the body'} in a {first['message']}: one below, at, one above."
    return body


def conditions(recipe: Recipe) -> str:
    """The profiles that a recipe's message needs."""
    field = recipe["field"].rpartition(".")[2]
    words = ["core", "any-scope" if field in SCOPED else "", "forks" if recipe["message"].startswith("fork") else ""]
    words.append("discovery" if recipe["message"] == "task-list" else "")
    return " ".join(filter(None, words))


def declared() -> Iterator[tuple[str, Any]]:
    """Test functions by their names."""
    subject = lambda recipe: (recipe["message"], recipe["field"])  # noqa: E731 - used twice as a key
    for (message, field), group in groupby(sorted(limit_recipes(), key=subject), key=subject):
        recipes = list(group)
        name = re.sub(r"[^a-z0-9]+", "-", f"{message}-{field or 'body'}".lower()).strip("-")
        cites = {"LIM-020", "LIM-021", "LIM-033", *(cited for recipe in recipes for cited in recipe["requirements"])}
        cites.update(*(COUNTED for recipe in recipes if counts_bytes(recipe)))
        cites.update(*(("JSON-085",) for recipe in recipes if recipe["unit"] == "depth"))
        declare = scenario(f"limits/{name}", cites=sorted(cites), profile=conditions(recipes[0]))
        yield f"test_{name.replace('-', '_')}", declare(body_of(recipes))


globals().update(declared())
