"""What every store checks of a transfer, before and after it."""

from protocol3.contract import limits
from protocol3.contract.models.common import Descriptor
from protocol3.programs.errors import ProgramError


def check_fetchable(descriptor: Descriptor) -> None:
    """No transfer is begun for an archive that could never be accepted (PKG-023)."""
    if descriptor.size > limits.ARCHIVE_BYTES:
        raise ProgramError("invalid_input", f"the archive is larger than {limits.ARCHIVE_BYTES} bytes")


def check_fetched(content: bytes, descriptor: Descriptor) -> bytes:
    """PKG-038. ``content`` was read up to one byte beyond the size."""
    if len(content) > descriptor.size:
        raise ProgramError("invalid_input", "the stored archive is longer than its descriptor says")
    if len(content) < descriptor.size:
        raise ProgramError("integrity", "the stored archive is shorter than its descriptor says")
    return content
