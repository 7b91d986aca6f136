"""Starting a program process (chapter 21, Launch)."""

import shutil

import pytest

PLAIN = "def handle(event):\n    return None\n"


@pytest.fixture
def start(hosts, package, bootstrap, python, python_version):
    """Start protocol 1 by hand: only the required arguments, and `more` of them; `changed` replaces values."""

    def launch(*more, source=PLAIN, without=(), **changed):
        root = package(source)
        values = {
            "--package-root": str(root),
            "--handler": "program:handle",
            "--python-version": python_version,
        } | {"--" + name.replace("_", "-"): value for name, value in changed.items()}
        words = [word for name, value in values.items() if name not in without for word in (name, value)]
        return hosts(root, command=[python, "-I", "-S", "-B", str(bootstrap), *words, *more], protocol=1)

    return launch


def exit_code(host):
    """The child must end before it writes any frame."""
    assert host.any_frame() is None
    return host.wait()


def test_ready_is_the_first_frame_and_has_exactly_four_members(start, python_version):
    """RUN-003, RUN-004, RUN-031: without flags the protocol is 1."""
    host = start()
    assert host.any_frame() == {
        "v": 1,
        "type": "ready",
        "pid": host.process.pid,
        "python_version": python_version,
    }
    assert host.end() == 0


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_protocol_flag_chooses_the_version(start, protocol):
    """RUN-003."""
    host = start("--protocol-version", str(protocol))
    assert host.any_frame()["v"] == protocol
    assert host.end() == 0


@pytest.mark.parametrize(
    ("more", "without"),
    [
        ([], ["--package-root"]),
        ([], ["--handler"]),
        ([], ["--python-version"]),
        (["--unknown", "1"], []),
        (["stray"], []),
        (["--max-input-bytes", "many"], []),
        (["--max-output-bytes", "1e6"], []),
        (["--max-output-bytes"], []),
        (["--protocol-version", "0"], []),
        (["--protocol-version", "4"], []),
        (["--protocol-version", "x"], []),
    ],
)
def test_a_wrong_command_line_exits_with_2(start, more, without):
    """RUN-014."""
    assert exit_code(start(*more, without=without)) == 2


@pytest.mark.parametrize("name", ["--max-input-bytes", "--max-output-bytes"])
def test_a_limit_below_256_exits_with_70(start, name):
    """RUN-015."""
    assert exit_code(start(name, "255")) == 70
    host = start(name, "256")
    assert host.frame()["type"] == "ready"
    assert host.end() == 0


@pytest.mark.parametrize("version", ["3.10", "3.99", "3", "3.11.0", "2.7", ""])
def test_another_python_version_exits_with_70(start, version):
    """RUN-016."""
    assert exit_code(start(python_version=version)) == 70


def test_a_package_root_that_is_no_directory_exits_with_70(start, tmp_path):
    """RUN-017."""
    assert exit_code(start(package_root=str(tmp_path / "nowhere"))) == 70
    file = tmp_path / "file"
    file.touch()
    assert exit_code(start(package_root=str(file))) == 70


@pytest.mark.parametrize(
    "handler",
    ["", "program", "program:", ":handle", "program:a:b", "program.handle", "program:a.b", "1a:handle", "a..b:c"],
)
def test_a_malformed_handler_exits_with_70(start, handler):
    """RUN-018."""
    assert exit_code(start(handler=handler)) == 70


@pytest.mark.parametrize("source", ["1/0", "def handle(:", "import nothing_of_that_name", "raise OSError"])
def test_an_exception_while_importing_exits_with_70(start, source):
    """RUN-019."""
    assert exit_code(start(source=source)) == 70


@pytest.mark.parametrize("code", [0, 5, 70])
def test_system_exit_while_importing_exits_with_its_code(start, code):
    """RUN-020."""
    assert exit_code(start(source=f"raise SystemExit({code})")) == code


def test_no_bytecode_is_written_even_without_the_flag(hosts, package, bootstrap, python, python_version):
    """RUN-012."""
    root = package("import other\n" + PLAIN, {"other.py": ""})
    words = ["--package-root", str(root), "--handler", "program:handle", "--python-version"]
    host = hosts(root, command=[python, "-I", "-S", str(bootstrap), *words, python_version], protocol=1)
    host.ready()
    assert host.end() == 0
    assert sorted(path.name for path in root.iterdir()) == ["other.py", "program.py"]


def test_the_helper_is_found_before_a_vendored_copy(hosts, package):
    """RUN-009, RUN-010, PKG-010: the package may add to the namespace but cannot replace the helper."""
    files = {
        "ledgence/worker/__init__.py": "raise RuntimeError('vendored')",
        "ledgence/worker/workflow.py": "raise RuntimeError('vendored')",
        "ledgence/client/__init__.py": "NAME = 'client of the package'",
    }
    source = """
        import ledgence.worker.workflow, ledgence.client
        def handle(event):
            return [ledgence.client.NAME, getattr(ledgence, "__file__", None), ledgence.worker.workflow.SCHEMA]
    """
    host = hosts(package(source, files), protocol=3).ready()
    assert host.invoke()["output"] == ["client of the package", None, "ledgence.workflow.activation.v1"]


@pytest.mark.parametrize(("protocol", "loaded"), [(1, False), (2, False), (3, True)])
def test_asyncio_is_loaded_by_protocol_3_only(hosts, package, protocol, loaded):
    """RUN-011."""
    source = """
        import sys
        LOADED = "asyncio" in sys.modules
        def handle(event):
            return LOADED
    """
    assert hosts(package(source), protocol=protocol).ready().invoke()["output"] is loaded


@pytest.mark.parametrize("protocol", [1, 2, 3])
def test_output_of_the_application_never_reaches_the_frames(hosts, package, protocol):
    """RUN-013: print, native writes and child processes all arrive on stderr."""
    source = """
        import os, subprocess, sys
        print("while importing")
        def handle(event):
            print("printed")
            os.write(1, b"native\\n")
            sys.__stdout__.write("original\\n")
            sys.__stdout__.flush()
            subprocess.run(["echo", "spawned"], check=True)
            return "fine"
    """
    host = hosts(package(source), protocol=protocol).ready()
    assert host.invoke()["output"] == "fine"
    assert host.end() == 0
    for text in ("while importing", "printed", "native", "original", "spawned"):
        assert text in host.stderr()


@pytest.mark.parametrize("protocol", [1, 3])
def test_the_application_cannot_take_frames_from_stdin(hosts, package, protocol, own_helper):
    """Ours alone: the private pipe end (RUN-013) goes for descriptor 0 as well."""
    if not own_helper:
        pytest.skip("the contract protects descriptor 1 only")
    source = """
        import subprocess, sys
        def handle(event):
            return [sys.stdin.read(), subprocess.run(["cat"], capture_output=True).stdout.decode()]
    """
    host = hosts(package(source), protocol=protocol).ready()
    assert host.invoke()["output"] == ["", ""]
    assert host.invoke()["output"] == ["", ""]


def test_a_module_of_the_package_does_not_break_the_helper(hosts, package):
    """RUN-009: neither logging nor the data classes are confused by application modules of standard names."""
    names = ("token", "copy", "inspect", "string", "contextlib", "hashlib", "threading", "dataclasses")
    files = {f"{name}.py": "raise RuntimeError('of the package')" for name in names}
    source = """
        from ledgence.worker import InvocationContext, current_invocation, get_logger
        def handle(event):
            get_logger("x").info("logged")
            return isinstance(current_invocation(), InvocationContext)
    """
    for protocol in (2, 3):
        host = hosts(package(source, files), protocol=protocol).ready()
        assert host.invoke()["output"] is True
        if not host.logs:  # before the result or after it (RUN-101)
            host.logs.append(host.any_frame())
        assert [frame["message"] for frame in host.logs] == ["logged"]


def test_the_package_root_may_be_given_through_a_link(hosts, package, tmp_path):
    """RUN-005, RUN-043: locations are compared after links are followed."""
    root = package(PLAIN)
    link = tmp_path / "link"
    link.symlink_to(root)
    host = hosts(link, protocol=1).ready()
    assert host.end() == 0


def test_the_working_directory_is_not_on_the_import_path(hosts, package, tmp_path):
    """RUN-006, RUN-042: only the package and the standard library are visible."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(package(PLAIN) / "program.py", elsewhere / "stray.py")
    source = """
        import sys
        def handle(event):
            try:
                import stray
            except ImportError:
                return [path for path in sys.path if "site-packages" in path]
    """
    host = hosts(package(source), protocol=1, directory=elsewhere).ready()
    assert host.invoke()["output"] == []


def test_resources_lie_beside_their_module(hosts, package):
    """PKG-011: wherever the process was started."""
    source = """
        import os
        def handle(event):
            with open(os.path.join(os.path.dirname(__file__), "words.txt")) as words:
                return words.read().split()
    """
    host = hosts(package(source, {"words.txt": "one two"}), protocol=2).ready()
    assert host.invoke()["output"] == ["one", "two"]
