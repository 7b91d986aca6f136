"""The contract as data: limits, errors, states, schemas. Importable by the reference and by the suite alike."""
