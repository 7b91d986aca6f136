"""Properties of the JSON codec over generated documents, and the nesting guard (JSON-001…055)."""

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol3.contract.limits import INTEGER_MAX, INTEGER_MIN
from protocol3.contract.strict_json import (
    InvalidJson,
    canonical,
    compact_size,
    decode,
    deeper_than,
    depth,
    digest,
    encode,
    fits,
    float_text,
    same,
)

texts = st.text(st.characters(exclude_categories=["Cs"]))
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers(INTEGER_MIN, INTEGER_MAX) | floats | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)


def bits(number: float) -> bytes:
    return struct.pack(">d", number)


@given(values)
def test_round_trip(value: Any) -> None:
    """JSON-046: every class and every bit survives."""
    body = encode(value)
    again = decode(body)
    assert same(value, again)
    assert encode(again) == body
    assert compact_size(value) == len(body)


@given(values)
def test_identity_is_canonical(value: Any) -> None:
    """JSON-043: member order does not matter, anything else does."""
    assert same(value, decode(canonical(value)))
    assert len(canonical(value)) == compact_size(value)
    assert digest(value) == digest(decode(canonical(value)))
    assert not same(value, [value])


@given(values, st.integers(0, 1000))
def test_what_fits_is_told_by_the_compact_form(value: Any, limit: int) -> None:
    """JSON-052: however much longer the text was."""
    for text in (encode(value), json.dumps(value, indent=2).encode()):
        assert fits(value, text, limit) == (compact_size(value) <= limit)


@pytest.mark.parametrize("token", ["1e15", "-1e15", "1e9", "-0", "1E5", "1e-4"])
@pytest.mark.parametrize("count", [1, 10, 100])
def test_what_fits_is_told_by_the_compact_form_of_the_shortest_text(token: str, count: int) -> None:
    """JSON-054: numbers get longer."""
    text = f"[{','.join([token] * count)}]".encode()
    value = decode(text)
    size = compact_size(value)
    assert size > len(text)
    assert [fits(value, text, limit) for limit in (size - 1, size, 5 * len(text))] == [False, True, True]


@given(st.dictionaries(texts, st.none(), min_size=2))
def test_canonical_order_is_by_utf8_bytes(members: dict[str, None]) -> None:
    names = list(json.loads(canonical(dict(members))))
    assert names == sorted(names, key=lambda name: name.encode("utf-8"))


@given(floats)
@example(2.9802322387695312e-8)
@example(1e16)
@example(9.999999999999999e22)
@example(1e-5)
@example(9.9999999999999e-6)
@example(5e-324)
@example(-0.0)
def test_float_text(number: float) -> None:
    """JSON-053, JSON-054: one text whether written alone or inside a document, and it reads back bit for bit."""
    text = float_text(number)
    assert encode([number, {text: number}]) == f'[{text},{{"{text}":{text}}}]'.encode()
    assert bits(float(text)) == bits(number)
    assert "." in text or "e" in text
    exponent = text.partition("e")[2]
    assert not exponent or (exponent[0] in "+-" and exponent[1] != "0")


@given(st.floats(1e-10, 1e-4, exclude_max=True) | st.floats(-1e-4, -1e-10, exclude_min=True))
def test_small_floats_among_strings(number: float) -> None:
    """JSON-054 touches floats only: text that looks like one stays as it is."""
    text = float_text(number)
    assert encode({"1e-05": number, 'a"1e-07': "1e-06\\"}) == (
        b'{"1e-05":' + text.encode() + b',"a\\"1e-07":"1e-06\\\\"}'
    )


odd_floats = st.floats(1e-10, 1e-4).map(lambda number: -number) | st.floats(1e-10, 1e-4)
odd_texts = st.text(st.sampled_from('1.e-056789,:[]{}"\\%s\n'), max_size=12) | st.sampled_from(
    ["1e-07", '"1e-05', ",1e-06,", "1.5e-05%s", "%", '\\"', "\\"]
)


def spelled(value: Any) -> str:
    """Compact text, written piece by piece: the long way to what `encode` does at once."""
    match value:
        case float():
            return float_text(value)
        case list():
            return f"[{','.join(map(spelled, value))}]"
        case dict():
            return f"{{{','.join(f'{spelled(name)}:{spelled(member)}' for name, member in value.items())}}}"
        case _:
            return json.dumps(value, ensure_ascii=False)


@given(
    st.recursive(
        odd_floats | floats | odd_texts | st.integers(INTEGER_MIN, INTEGER_MAX),
        lambda inner: st.lists(inner) | st.dictionaries(odd_texts, inner),
        max_leaves=30,
    )
)
@example(["1e-07", 1e-7, {'"1e-05,': -1.25e-5, '\\"': [1e-5, "%s", 1e-6, 1e-9, 1e-10, 1e-15, 1e16]}, "\\", 9.5e-5])
def test_odd_floats_among_odd_texts(value: Any) -> None:
    """JSON-052, JSON-054: every float is spelled as if it were alone, no name and no string is touched."""
    assert encode(value).decode() == spelled(value)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_only_finite_floats_are_written(number: float) -> None:
    with pytest.raises(InvalidJson):
        encode([number])
    with pytest.raises(InvalidJson):
        float_text(number)


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}])
def test_lone_surrogates_are_not_written(value: Any) -> None:
    """TXT-008."""
    with pytest.raises(InvalidJson):
        encode(value)


@given(st.binary() | texts.map(lambda text: text.encode("utf-8")))
def test_any_bytes_are_judged(body: bytes) -> None:
    """Refused with InvalidJson or decoded, nothing else; and what is accepted is JSON to the standard library."""
    try:
        value = decode(body)
    except InvalidJson:
        return
    assert same(value, decode(encode(value)))
    json.loads(body)


@given(values, st.data())
def test_one_changed_byte(value: Any, data: st.DataObject) -> None:
    body = bytearray(encode(value))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        again = decode(bytes(body))
    except InvalidJson:
        return
    assert same(again, decode(encode(again)))


@given(values, st.integers(0, 6))
def test_depth_and_guard_agree(value: Any, limit: int) -> None:
    """JSON-030, JSON-031."""
    assert deeper_than(limit, encode(value)) is (depth(value) > limit)
    body = encode(value)
    if depth(value) > limit:
        with pytest.raises(InvalidJson, match="nested deeper"):
            decode(body, max_depth=limit)
    else:
        assert same(decode(body, max_depth=limit), value)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'["\\"",' * 100_000,
        b'["\\\\",' * 100_000,
        b'[{"]":' * 100_000,
        b"]" * 100_000 + b"[" * 200_000,
        b'"' + b"[" * 300_000,
    ],
    ids=["open", "arrays", "objects", "quotes", "backslashes", "brackets in names", "closed first", "open string"],
)
def test_nesting_never_exhausts_the_stack(body: bytes) -> None:
    """JSON-033: refused before anything recursive looks at the document."""
    with pytest.raises(InvalidJson):
        decode(body)


def test_refusals_never_quote_the_document() -> None:
    """HTTP-065."""
    for body in (b'{"secret":1,"secret":2}', b'["secret"', b'["secret" 99999999999999999999999]', b'"secret\\ud800"'):
        with pytest.raises(InvalidJson) as caught:
            decode(body)
        assert "secret" not in str(caught.value)
