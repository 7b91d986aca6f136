"""The one exception of the workflow API."""


class WorkflowError(Exception):
    """A rule of the workflow API was broken, or the host could not acknowledge an operation (HLP-023)."""
