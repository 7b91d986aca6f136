"""The contract as data: limits, errors, states, schemas, routes. Importable by the reference and by the suite alike."""

from protocol3_spec.documents import bundle, member_names, openapi, routes, schemas
from protocol3_spec.loader import ErrorCode, Limit, Transition, Vocabulary, errors, limits, transitions, vocabularies

__all__ = [
    "ErrorCode",
    "Limit",
    "Transition",
    "Vocabulary",
    "bundle",
    "errors",
    "limits",
    "member_names",
    "openapi",
    "routes",
    "schemas",
    "transitions",
    "vocabularies",
]
