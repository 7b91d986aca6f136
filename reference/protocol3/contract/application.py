"""Application-owned values: any JSON within a depth and, where the contract names one, a compact size."""

from protocol3.contract.limits import DATA_DEPTH
from protocol3.contract.refusal import Refusal, invalid
from protocol3.contract.strict_json import JsonValue, deeper_than, depth, encode


def application_value(
    value: JsonValue, at: str, *, max_bytes: int | None = None, max_depth: int = DATA_DEPTH
) -> JsonValue:
    """The value unchanged, if it fits (JSON-032, JSON-055, JSON-084, JSON-085)."""
    if isinstance(value, str | list | dict):
        if max_bytes is None:
            deep = depth(value) > max_depth
        else:
            text = encode(value)
            if len(text) > max_bytes:
                raise too_large(at, max_bytes)
            deep = deeper_than(max_depth, text)
        if deep:
            raise invalid(at, f"must not nest deeper than {max_depth}")
    return value


def too_large(at: str, max_bytes: int) -> Refusal:
    """The refusal of a value whose compact encoding breaks its limit; nothing is ever cut (LIM-021, LIM-033)."""
    return invalid(at, f"must be at most {max_bytes} bytes of compact JSON")
