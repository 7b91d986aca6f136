"""The contract as data: limits, errors, states, schemas, routes. Importable by the reference and by the suite alike."""

from protocol3_spec.documents import bundle, member_names, openapi, routes, schema_bundle, schemas
from protocol3_spec.loader import ErrorCode, Limit, Transition, Vocabulary, errors, limits, transitions, vocabularies
from protocol3_spec.requirements import Requirement, requirements

__all__ = [
    "ErrorCode",
    "Limit",
    "Requirement",
    "Transition",
    "Vocabulary",
    "bundle",
    "errors",
    "limits",
    "member_names",
    "openapi",
    "requirements",
    "routes",
    "schema_bundle",
    "schemas",
    "transitions",
    "vocabularies",
]
