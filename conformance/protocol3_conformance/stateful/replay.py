"""Plays a list of HTTP calls and tells which answer differs. Python 3.11 or newer, standard library only.

A call has `number`, `method`, `path`, `query`, `body`, `status`, `expect`, `rules`; where it may take a while to come
about, also `until`; where several outcomes are right and the rest of the list depends on it, `seen`. In its values
`{run}` stands for text that is new in each run, {"$ref": [NUMBER, NAME...]} for a value of an earlier answer, and
{"$optional": [...]} for the same, left out where that answer had none.

An expected object matches every object that has at least its members. More than that say $exactly (no further member),
$any (one of these), $some (not null), $absent (left out), $new (none of these). $by names the requirements that a value
breaks which does not match what is in `is`; where nothing else does, the call's `rules` do.
"""

from __future__ import annotations

import argparse
import http.client
import json
import secrets
import sys
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

CALLS: list[dict[str, Any]] = []

PATIENCE_SECONDS, PAUSE_SECONDS = 20.0, 0.05
ATTEMPTS = 25
MISSING = object()


class Differs(Exception):
    """An answer is not the expected one."""


class AnotherOrder(Exception):
    """An answer that is right too, but leads elsewhere."""


def lookup(path: list[Any], answers: dict[int, Any]) -> Any:
    """A value of an earlier answer, or MISSING."""
    value = answers[path[0]]
    for name in path[1:]:
        if not isinstance(value, dict) or name not in value:
            return MISSING
        value = value[name]
    return value


def fill(template: Any, run: str, answers: dict[int, Any]) -> Any:
    """The template with its references resolved; a reference to what never came is null."""
    if isinstance(template, str):
        return template.replace("{run}", run)
    if isinstance(template, list):
        return [fill(item, run, answers) for item in template]
    if not isinstance(template, dict):
        return template
    if "$ref" in template:
        found = lookup(template["$ref"], answers)
        return None if found is MISSING else found
    filled = {}
    for name, value in template.items():
        if isinstance(value, dict) and "$optional" in value:
            found = lookup(value["$optional"], answers)
            if found is not MISSING:
                filled[name] = found
        else:
            filled[name] = fill(value, run, answers)
    return filled


def brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}..."


class Wrong(NamedTuple):
    """What is wrong, and the requirements that it breaks."""

    text: str
    rules: list[str]

    def __str__(self) -> str:
        return f"{self.text} [{', '.join(self.rules)}]" if self.rules else self.text


def unwrapped(expected: Any, rules: list[str]) -> tuple[Any, list[str]]:
    """The pattern within $by, and its requirements."""
    while isinstance(expected, dict) and "$by" in expected:
        expected, rules = expected["is"], expected["$by"]
    return expected, rules


def differences(pattern: Any, came: Any, at: str, outer: list[str]) -> Iterator[Wrong]:
    """One for each place where `came` does not match; nothing when it does."""
    expected, rules = unwrapped(pattern, outer)
    if isinstance(expected, dict):
        yield from _object_differences(expected, came, at, rules)
    elif isinstance(expected, list):
        if not isinstance(came, list) or len(came) != len(expected):
            yield Wrong(f"{at}: expected {len(expected)} items {brief(expected)}, came {brief(came)}", rules)
            return
        for index, (one, other) in enumerate(zip(expected, came, strict=True)):
            yield from differences(one, other, f"{at}[{index}]", rules)
    elif type(expected) is not type(came) or expected != came:
        yield Wrong(f"{at}: expected {brief(expected)}, came {brief(came)}", rules)


def _object_differences(expected: dict[str, Any], came: Any, at: str, rules: list[str]) -> Iterator[Wrong]:
    if "$some" in expected:
        if came is None:
            yield Wrong(f"{at}: expected a value, came null", rules)
    elif "$new" in expected:
        if came is None or came in expected["$new"]:
            yield Wrong(f"{at}: expected a new value, came {brief(came)}", rules)
    elif "$any" in expected:
        if all(any(True for _ in differences(one, came, at, rules)) for one in expected["$any"]):
            yield Wrong(f"{at}: expected one of {brief(expected['$any'])}, came {brief(came)}", rules)
    elif not isinstance(came, dict):
        yield Wrong(f"{at}: expected an object {brief(expected)}, came {brief(came)}", rules)
    else:
        yield from _member_differences(expected, came, at, rules)


def _member_differences(expected: dict[str, Any], came: dict[str, Any], at: str, rules: list[str]) -> Iterator[Wrong]:
    members = expected.get("$exactly", expected)
    for name in sorted(came.keys() - members.keys()) if "$exactly" in expected else ():
        yield Wrong(f"{at}.{name}: expected nothing, came {brief(came[name])}", rules)
    for name, pattern in members.items():
        value, inner = unwrapped(pattern, rules)
        if isinstance(value, dict) and "$absent" in value:
            if name in came:
                yield Wrong(f"{at}.{name}: expected nothing, came {brief(came[name])}", inner)
        elif name not in came:
            yield Wrong(f"{at}.{name}: expected {brief(value)}, came nothing", inner)
        else:
            yield from differences(value, came[name], f"{at}.{name}", inner)


def judge(call: dict[str, Any], status: int, value: Any, run: str, answers: dict[int, Any]) -> list[Wrong]:
    """What is wrong with the answer to a call, which is in `answers` already."""
    expected = fill(call["expect"], run, answers)
    if status != call["status"]:
        return [Wrong(f"expected {call['status']} {brief(expected)}, came {status} {brief(value)}", call["rules"])]
    return list(differences(expected, value, "answer", call["rules"]))


def send(base: str, call: dict[str, Any], run: str, answers: dict[int, Any]) -> tuple[int, Any]:
    """One exchange: status and decoded body."""
    place = urllib.parse.urlsplit(base)
    query = urllib.parse.urlencode(fill(call["query"], run, answers))
    target = place.path.rstrip("/") + call["path"] + (f"?{query}" if query else "")
    body = None if call["body"] is None else json.dumps(fill(call["body"], run, answers)).encode()
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection.request(call["method"], target, body, headers)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def play(base: str, calls: Iterable[dict[str, Any]], say: Any) -> None:
    """All calls in order. Raises Differs and AnotherOrder."""
    run, answers = secrets.token_hex(6), dict[int, Any]()
    for call in calls:
        deadline = time.monotonic() + (PATIENCE_SECONDS if call.get("until") else 0)
        while True:
            status, value = send(base, call, run, answers)
            answers[call["number"]] = value
            wrong = judge(call, status, value, run, answers)
            if not wrong or time.monotonic() >= deadline:
                break
            time.sleep(PAUSE_SECONDS)
        line = f"{call['number']:3}  {call['method']} {call['path']}  {status}"
        if wrong:
            say(f"{line}  DIFFERS\n     sent     {brief(fill(call['body'] or call['query'], run, answers))}")
            raise Differs("\n".join(f"     {sentence}" for sentence in wrong))
        say(f"{line}  as expected")
        if any(True for _ in differences(fill(call.get("seen", {}), run, answers), value, "answer", [])):
            raise AnotherOrder


def main() -> int:
    """0: every answer was as expected; 1: one was not; 2: it could not be tried."""
    parser = argparse.ArgumentParser(description="Send the calls of this file to a service and compare its answers.")
    parser.add_argument("url", help="base URL of the service, such as http://127.0.0.1:8080")
    url = parser.parse_args().url

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")

    for _ in range(ATTEMPTS):
        try:
            play(url, CALLS, say)
        except AnotherOrder:
            say("This order of work is right too, but not the one to be shown: once more, with new names.")
            continue
        except Differs as difference:
            say(str(difference))
            return 1
        except (OSError, http.client.HTTPException, ValueError) as error:
            say(f"no proper answer from {url}: {error}")
            return 2
        say(f"All {len(CALLS)} answers are as expected.")
        return 0
    say(f"The order of work to be shown did not come about in {ATTEMPTS} tries.")
    return 2


if __name__ == "__main__":
    sys.exit(main())
