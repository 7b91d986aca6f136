"""Data that are one JSON value however they are spelled, and data that are another one (JSON-040 to JSON-044)."""

from __future__ import annotations

from protocol3_conformance.wire.strict_json import encode

STORED = b'{"one":1,"f":1.0,"z":0.0,"list":[1,2],"text":"A\xc3\xa9","nested":{"a":null,"b":true}}'
EQUAL = {
    "member order": b'{"nested":{"b":true,"a":null},"text":"A\xc3\xa9","list":[1,2],"z":0.0,"f":1.0,"one":1}',
    "exponent spelling": STORED.replace(b'"f":1.0,"z":0.0', b'"f":10e-1,"z":0e7'),
    "escapes": STORED.replace(b"A\xc3\xa9", b"\\u0041\\u00e9"),
}
DIFFERENT = {
    "float for integer": STORED.replace(b'"one":1', b'"one":1.0'),
    "true for integer": STORED.replace(b'"one":1', b'"one":true'),
    "string for integer": STORED.replace(b'"one":1', b'"one":"1"'),
    "integer for float": STORED.replace(b'"f":1.0', b'"f":1'),
    "negative zero": STORED.replace(b'"z":0.0', b'"z":-0'),
    "integer zero": STORED.replace(b'"z":0.0', b'"z":0'),
    "array order": STORED.replace(b"[1,2]", b"[2,1]"),
    "decomposed text": STORED.replace(b"\xc3\xa9", b"e\xcc\x81"),
    "null left out": STORED.replace(b'"a":null,', b""),
}


def with_data(command: object, data: bytes) -> bytes:
    """The bytes of a command whose data are "DATA", with `data` spelled exactly so."""
    return encode(command).replace(b'"data":"DATA"', b'"data":' + data)
