"""Texts and delays of completion notifications (chapter 31)."""

from typing import Final
from urllib.parse import quote, unquote_to_bytes

from protocol3.contract.limits import DELIVERY_RETRY_BASE_MS, DELIVERY_RETRY_MAX_MS, ENCODED_CORRELATION_KEY_BYTES
from protocol3.contract.refusal import Refusal, invalid
from protocol3.contract.text import correlation, has_forbidden_characters
from protocol3.contract.vocabulary import ChildKind

_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


def percent_encode(text: str) -> str:
    """Every byte outside `A-Z a-z 0-9 - . _ ~` as `%HH`, upper case (CMP-028)."""
    return quote(text, safe="")


def result_reference(kind: ChildKind, tenant_id: str, namespace: str, target_id: str) -> str:
    """`ldgresultref` of a task or workflow (CMP-028)."""
    scope = f"tenant_id={percent_encode(tenant_id)}&namespace={percent_encode(namespace)}"
    return f"/v1/{kind}s/result?{scope}&{kind}_id={percent_encode(target_id)}"


def correlation_attributes(correlation_key: str | None) -> dict[str, str]:
    """`ldgcorrelationkey`, with `ldgcorrelationkeyencoding` if the key holds a noncharacter (CMP-035, CMP-036)."""
    if correlation_key is None:
        return {}
    if has_forbidden_characters(correlation_key):
        return {"ldgcorrelationkey": percent_encode(correlation_key), "ldgcorrelationkeyencoding": "percent"}
    return {"ldgcorrelationkey": correlation_key}


def correlation_from_attributes(key: str, encoding: str | None, at: str) -> str:
    """The correlation key behind the two attributes; only the canonical percent form is taken. Raises Refusal."""
    if encoding is None:
        if has_forbidden_characters(key):
            raise _not_correlation(at)
        return correlation(key, at)
    if encoding != "percent" or len(key) > ENCODED_CORRELATION_KEY_BYTES:
        raise _not_correlation(at)
    try:
        decoded = unquote_to_bytes(key).decode("utf-8")
    except UnicodeDecodeError:
        raise _not_correlation(at) from None
    if percent_encode(decoded) != key:
        raise _not_correlation(at)
    return correlation(decoded, at)


def retry_delay_ms(subscription_id: str, attempt: int) -> int:
    """Milliseconds before the delivery after failed attempt 1…7: doubling, with FNV-1a jitter, capped (CMP-060)."""
    base = min(DELIVERY_RETRY_BASE_MS << (attempt - 1), DELIVERY_RETRY_MAX_MS)
    jitter = _fnv1a(subscription_id.encode("utf-8") + attempt.to_bytes(4, "little")) % (base // 4 + 1)
    return min(base + jitter, DELIVERY_RETRY_MAX_MS)


def _fnv1a(octets: bytes) -> int:
    value = _FNV_OFFSET
    for octet in octets:
        value = (value ^ octet) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return value


def _not_correlation(at: str) -> Refusal:
    return invalid(at, "must be correlation text, plain or in canonical percent form")
