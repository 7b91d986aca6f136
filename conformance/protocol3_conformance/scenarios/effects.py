"""A handler with one step and one external effect, and how often that happens when its first attempt dies somewhere."""

from __future__ import annotations

from protocol3_conformance.wire.effects import Effects

CODE = """
import http.client, os, pathlib, socket, time
attempt = event["ldgattemptno"]

def effect():
    {before_effect}
    sink = http.client.HTTPConnection({host!r}, {port}, timeout=20)
    sink.request("POST", f"/{{event['ldgworkflowid']}}/{step}/{{attempt}}")
    assert sink.getresponse().status == 200
    {before_record}
    return "paid"

paid = await ctx.local("pay", effect)
{after_record}
return ctx.complete(paid)
"""
EXPECTED = {"before_effect": {2: 1}, "before_record": {1: 1, 2: 1}, "after_record": {1: 1}}
"""Effects by attempt when the first one dies there: only what was not recorded is done again (HLP-056)."""


def code(effects: Effects, step: str, **places: str) -> str:
    """At the places given the first attempt of the handler does this."""
    host, port = effects.address
    acts = {place: f"if attempt == 1: {places[place]}" if place in places else "pass" for place in EXPECTED}
    return CODE.format(host=host, port=port, step=step, **acts)
