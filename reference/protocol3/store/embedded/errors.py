"""The one exception of the launcher."""


class EmbeddedPostgresError(Exception):
    """The database cannot be started. The text is one sentence for an operator: what is wrong and what to do."""
