"""The requirement sentences that scenarios cite."""

from protocol3_spec.requirements import Requirement, requirements

__all__ = ["Requirement", "requirements"]
