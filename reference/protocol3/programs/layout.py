"""Where things lie in a program store, and the bytes of a descriptor (PKG-029…034)."""

from pathlib import PurePosixPath

from protocol3.contract import limits
from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import InvalidJson, JsonValue, decode, encode
from protocol3.contract.text import digest
from protocol3.programs.errors import ProgramError


def descriptor_path(program: ProgramRef) -> PurePosixPath:
    """No tenant and no namespace: an id and version means one artifact (PKG-032, PKG-034)."""
    return PurePosixPath("programs", program.id, program.version, "descriptor.json")


def blob_path(descriptor: Descriptor) -> PurePosixPath:
    """PKG-032."""
    return PurePosixPath("blobs", descriptor.digest.removeprefix("sha256:") + ".zip")


def encode_descriptor(descriptor: Descriptor) -> bytes:
    """Compact JSON in the fixed member order, no newline: it is compared by its bytes (PKG-033, PKG-054)."""
    program = descriptor.program
    return encode(
        {
            "program": {"id": program.id, "version": program.version},
            "digest": descriptor.digest,
            "size": descriptor.size,
        }
    )


def decode_descriptor(raw: bytes, program: ProgramRef) -> Descriptor:
    """The descriptor of exactly ``program``; anything else is ``integrity`` (PKG-029, PKG-031, PKG-036)."""
    if len(raw) > limits.DESCRIPTOR_BYTES:
        raise ProgramError("invalid_input", f"the descriptor is larger than {limits.DESCRIPTOR_BYTES} bytes")
    try:
        document = decode(raw)
        _check_digest_form(document)
        descriptor = Descriptor.from_json(document, "descriptor")
    except (InvalidJson, Refusal) as error:
        raise ProgramError("integrity", f"the stored descriptor is not valid: {error}") from None
    if descriptor.program != program:
        raise ProgramError("integrity", "the stored descriptor names another program")
    return descriptor


def _check_digest_form(document: JsonValue) -> None:
    """PKG-030: a digest of another form is ``invalid_input``, unlike every other damage."""
    written = document.get("digest") if isinstance(document, dict) else None
    if isinstance(written, str):
        try:
            digest(written, "descriptor.digest")
        except Refusal as refusal:
            raise ProgramError("invalid_input", str(refusal.message)) from None
