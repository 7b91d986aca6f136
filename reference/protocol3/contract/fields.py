"""Reading one JSON object of a message: members by name, nulls and unknown members judged (JSON-080 to JSON-082)."""

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from protocol3.contract.refusal import invalid, unknown
from protocol3.contract.strict_json import JsonValue

T = TypeVar("T")
P = ParamSpec("P")
Reader = Callable[Concatenate[JsonValue, str, P], T]  # a function (value, at, ...) that returns a T or refuses


class Fields:
    """The members of the object at `at`, as a context: leaving it refuses whatever was not taken (JSON-080).

    `required` refuses absence, `optional` allows it but refuses null, `nullable` takes null for absence (JSON-081,
    JSON-082); `present` needs the member but lets it be null.
    """

    __slots__ = ("_asked", "_at", "_left", "_lenient")

    def __init__(self, value: JsonValue, at: str, *, lenient: bool = False) -> None:
        """`lenient` ignores unknown members (DLV-073). Raises Refusal for anything but an object."""
        if not isinstance(value, dict):
            raise invalid(at, "must be an object")
        self._left = value.copy()
        self._asked: list[str] = []  # names of ours, for the one who misspelt one
        self._at = at
        self._lenient = lenient

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._left and not self._lenient:
            raise invalid(self._at, unknown("member", next(iter(self._left)), self._asked))

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def required(self, name: str, read: Reader[P, T], *args: P.args, **options: P.kwargs) -> T:
        """The member read by `read`; it must be there."""
        self._asked.append(name)
        at = f"{self._at}.{name}"
        if name not in self._left:
            raise invalid(at, "is missing")
        return read(self._left.pop(name), at, *args, **options)

    def optional(self, name: str, default: T, read: Reader[P, T], *args: P.args, **options: P.kwargs) -> T:
        """The member read by `read`, or the default if it is absent; null is read like any value."""
        self._asked.append(name)
        if name not in self._left:
            return default
        return read(self._left.pop(name), f"{self._at}.{name}", *args, **options)

    def nullable(self, name: str, read: Reader[P, T], *args: P.args, **options: P.kwargs) -> T | None:
        """The member read by `read`; None if it is absent or null."""
        self._asked.append(name)
        value = self._left.pop(name, None)
        return None if value is None else read(value, f"{self._at}.{name}", *args, **options)

    def present(self, name: str, read: Reader[P, T], *args: P.args, **options: P.kwargs) -> T | None:
        """The member read by `read`, None for null; it must be there."""
        value = self.raw(name)
        return None if value is None else read(value, f"{self._at}.{name}", *args, **options)

    def raw(self, name: str) -> JsonValue:
        """The member as it is; it must be there, null included."""
        self._asked.append(name)
        if name not in self._left:
            raise invalid(f"{self._at}.{name}", "is missing")
        return self._left.pop(name)


def integer(value: JsonValue, at: str, low: int, high: int) -> int:
    """An integer token within low…high; floats, booleans, strings and null are refused (JSON-027)."""
    if type(value) is not int or not low <= value <= high:
        raise invalid(at, f"must be an integer from {low} to {high}")
    return value


def boolean(value: JsonValue, at: str) -> bool:
    """`true` or `false`."""
    if not isinstance(value, bool):
        raise invalid(at, "must be true or false")
    return value


def array(value: JsonValue, at: str, low: int, high: int) -> list[JsonValue]:
    """An array of low…high elements."""
    if not isinstance(value, list) or not low <= len(value) <= high:
        raise invalid(at, f"must be an array of {low} to {high} elements")
    return value


def each(value: JsonValue, at: str, low: int, high: int, read: Callable[[JsonValue, str], T]) -> tuple[T, ...]:
    """An array of low…high elements, each read by `read`."""
    return tuple(read(element, f"{at}[{index}]") for index, element in enumerate(array(value, at, low, high)))


def distinct(keys: Iterable[str], at: str) -> None:
    """Refuses a key that occurs twice."""
    seen: set[str] = set()
    for index, key in enumerate(keys):
        if key in seen:
            raise invalid(f"{at}[{index}]", "must not name a key twice")
        seen.add(key)


def present(**members: JsonValue) -> dict[str, JsonValue]:
    """The members that are not None: how optional members are written."""
    return {name: value for name, value in members.items() if value is not None}
