"""The contract as data: limits, errors, states, schemas. Importable by the reference and by the suite alike."""

from protocol3_spec.loader import ErrorCode, Limit, Transition, Vocabulary, errors, limits, transitions, vocabularies

__all__ = ["ErrorCode", "Limit", "Transition", "Vocabulary", "errors", "limits", "transitions", "vocabularies"]
