"""Starting a program process (chapter 21, Launch)."""

from __future__ import annotations

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.program import Program
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check

UNBOUNDED = {"max_input_bytes": None, "max_output_bytes": None}
PLAIN = "def handle(event):\n    return None\n"


async def exit_code(program: Program) -> int:
    """Of a process that must end before it writes any frame."""
    line = await program.raw_line()
    assert line == b"", f"a frame came before the end: {line!r}"
    return await program.process.ended()


@runtime_check("runtime-launch/ready", cites=["RUN-003", "RUN-004", "RUN-031", "RUN-032"])
async def test_ready(lab: RuntimeLab) -> None:
    """`ready` is the first frame, with four members, in the version of the flag; without a flag it is 1."""
    package = lab.package(PLAIN)
    for protocol in (1, 2, 3):
        with lab.case(f"protocol {protocol}"):
            program = await lab.start(package, protocol=protocol).ready()
            assert await program.finish() == 0
    with lab.case("by hand, without limits"):
        program = await lab.start(package, protocol=1, arguments=UNBOUNDED).ready()
        assert await program.finish() == 0


@runtime_check("runtime-launch/command-line", cites=["RUN-014"])
async def test_command_line(lab: RuntimeLab) -> None:
    """A missing or unknown argument, a limit that is no integer, an unknown version: exit code 2, no frame."""
    package = lab.package(PLAIN)
    for name in ("package_root", "handler", "python_version"):
        with lab.case(f"without {name}"):
            assert await exit_code(lab.start(package, arguments={name: None})) == 2
    for extra in ("--unknown 1", "stray"):
        with lab.case(extra):
            assert await exit_code(lab.start(package, extra=extra)) == 2
    for name, value in (
        ("max_input_bytes", "many"),
        ("max_output_bytes", "1e6"),
        ("max_output_bytes", ""),
        ("protocol_version", "0"),
        ("protocol_version", "4"),
        ("protocol_version", "x"),
    ):
        with lab.case(f"{name} {value!r}"):
            assert await exit_code(lab.start(package, arguments={name: value})) == 2


@runtime_check("runtime-launch/smallest-limit", cites=["RUN-015"])
async def test_smallest_limit(lab: RuntimeLab) -> None:
    """A limit of 255 bytes ends the process with 70, 256 are accepted."""
    least = bound("MIN_FRAME_BYTES")
    package = lab.package(PLAIN)
    for name in ("max_input_bytes", "max_output_bytes"):
        for value, code in ((least - 1, 70), (0, 70), (-1, 70), (least, 0), (least + 1, 0)):
            with lab.case(f"{name} {value}"):
                program = lab.start(package, arguments={name: str(value)})
                if code:
                    assert await exit_code(program) == code
                else:
                    assert await (await program.ready()).finish() == 0


@runtime_check("runtime-launch/python-version", cites=["RUN-016", "PKG-007"])
async def test_python_version(lab: RuntimeLab) -> None:
    """A `--python-version` that is not the interpreter's ends the process with 70."""
    package = lab.package(PLAIN)
    for version in ("3.10", "3.99", "3", f"{lab.python_version}.0", "2.7", "x"):
        with lab.case(version):
            assert await exit_code(lab.start(package, arguments={"python_version": version})) == 70


@runtime_check("runtime-launch/package-root", cites=["RUN-017"])
async def test_package_root(lab: RuntimeLab) -> None:
    """A package root that is missing, or no directory, ends the process with 70."""
    file = lab.folder / "file"
    file.touch()
    for root in (lab.folder / "nowhere", file):
        with lab.case(root.name):
            assert await exit_code(lab.start(root)) == 70


@runtime_check("runtime-launch/handler-text", cites=["RUN-018"])
async def test_handler_text(lab: RuntimeLab) -> None:
    """The handler is one colon between a dotted identifier path and an identifier, else the exit code is 70."""
    package = lab.package(PLAIN)
    for handler in (
        "program",
        "program:",
        ":handle",
        "program:a:b",
        "program.handle",
        "program:a.b",
        "1a:handle",
        "a..b:c",
        "program:handle:b",
        "program:handle.b",
        "program:handle ",
        " program:handle",
    ):
        with lab.case(handler):
            assert await exit_code(lab.start(package, handler=handler)) == 70


@runtime_check("runtime-launch/import-fails", cites=["RUN-019", "RUN-020", "RUN-031"])
async def test_import_fails(lab: RuntimeLab) -> None:
    """An exception while the module is imported gives 70, SystemExit its own code; no frame is written."""
    for source, code in (
        ("1/0", 70),
        ("def handle(:", 70),
        ("import nothing_of_that_name", 70),
        ("raise OSError", 70),
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(5)", 5),
    ):
        with lab.case(source):
            assert await exit_code(lab.start(source)) == code


@runtime_check("runtime-launch/no-bytecode", cites=["RUN-012"])
async def test_no_bytecode(lab: RuntimeLab) -> None:
    """No bytecode is written into the package, not even without the interpreter's `-B`."""
    for omitted in ("", "-B"):
        with lab.case(f"without {omitted or 'nothing'}"):
            package = lab.package("import other\n" + PLAIN, {"other.py": ""})
            program = await lab.start(package, omitted=omitted).ready()
            assert (await program.invoke())["status"] == "success"
            assert await program.finish() == 0
            assert sorted(path.name for path in package.iterdir()) == ["other.py", "program.py"]


@runtime_check("runtime-launch/helper-is-the-workers", cites=["RUN-009", "RUN-010", "PKG-010"])
async def test_helper_is_the_workers(lab: RuntimeLab) -> None:
    """A vendored copy of the helper is not used; the package may add `ledgence.client` to the namespace."""
    contents = {
        "ledgence/worker/__init__.py": "raise RuntimeError('vendored')",
        "ledgence/worker/workflow.py": "raise RuntimeError('vendored')",
        "ledgence/client/__init__.py": "NAME = 'client of the package'",
    }
    source = """
        import ledgence.worker.workflow, ledgence.client
        def handle(event):
            return [ledgence.client.NAME, getattr(ledgence, "__file__", None), ledgence.worker.workflow.SCHEMA]
    """
    program = await lab.start(source, contents=contents).ready()
    assert (await program.invoke())["output"] == ["client of the package", None, "ledgence.workflow.activation.v1"]


@runtime_check("runtime-launch/asyncio", cites=["RUN-011", "RUN-041"])
async def test_asyncio(lab: RuntimeLab) -> None:
    """`asyncio` is loaded before application code in protocol 3 alone; only there it is no name of a handler module."""
    source = "import sys\nLOADED = 'asyncio' in sys.modules\ndef handle(event):\n    return LOADED\n"
    named = lab.package(None, {"asyncio.py": "def handle(event):\n    return __name__\n"})
    for protocol in (1, 2, 3):
        with lab.case(f"protocol {protocol}"):
            program = await lab.start(source, protocol=protocol).ready()
            assert (await program.invoke())["output"] is (protocol == 3)
            of_package = lab.start(named, handler="asyncio:handle", protocol=protocol)
            if protocol == 3:
                assert await exit_code(of_package) == 70
            else:
                assert (await (await of_package.ready()).invoke())["output"] == "asyncio"


@runtime_check("runtime-launch/output-of-the-application", cites=["RUN-013"])
async def test_output_of_the_application(lab: RuntimeLab) -> None:
    """print, native writes to descriptor 1 and child processes arrive on standard error and damage no frame."""
    source = """
        import os, subprocess, sys
        print("<importing>")
        def handle(event):
            print("<printed>", flush=True)
            os.write(1, b"<native>")
            sys.__stdout__.write("<original>")
            sys.__stdout__.flush()
            subprocess.run(["echo", "<spawned>"], check=True)
            return "fine"
    """
    for protocol in (1, 2, 3):
        with lab.case(f"protocol {protocol}"):
            program = await lab.start(source, protocol=protocol).ready()
            assert (await program.invoke())["output"] == "fine"
            assert await program.finish() == 0
            for text in ("<importing>", "<printed>", "<native>", "<original>", "<spawned>"):
                assert text in program.process.stderr()


@runtime_check("runtime-launch/what-is-visible", cites=["RUN-047", "RUN-042", "PKG-011"])
async def test_what_is_visible(lab: RuntimeLab) -> None:
    """Vendored modules and the standard library can be imported; site-packages and the working directory cannot."""
    elsewhere = lab.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "stray.py").write_text("")
    source = """
        import ledgence.worker, sys, vendored.module
        from pathlib import Path
        def handle(event):
            import decimal, json
            try:
                import stray
            except ImportError:
                words = (Path(__file__).parent / "words.txt").read_text().split()
                helper = Path(ledgence.worker.__file__).parents[2]
                paths = [path for path in sys.path if "site-packages" in path and Path(path) != helper]
                return [vendored.module.NAME, str(decimal.Decimal(1)), words, paths]
    """
    contents = {"vendored/module.py": "NAME = 'vendored'", "words.txt": "one two"}
    program = await lab.start(source, contents=contents, directory=elsewhere).ready()
    assert (await program.invoke())["output"] == ["vendored", "1", ["one", "two"], []]


@runtime_check("runtime-launch/root-through-a-link", cites=["RUN-043"])
async def test_root_through_a_link(lab: RuntimeLab) -> None:
    """Places are compared after links are followed, those on the way to the root included."""
    link = lab.folder / "link"
    link.symlink_to(lab.package(PLAIN))
    assert (await (await lab.start(link).ready()).invoke())["output"] is None
