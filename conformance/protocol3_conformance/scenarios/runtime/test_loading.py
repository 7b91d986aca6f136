"""Which handlers are loaded, and from where (chapter 21, Loading the handler)."""

from __future__ import annotations

from pathlib import Path

from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.scenarios.runtime.test_launch import exit_code

PLAIN = "def handle(event):\n    return __name__\n"


async def refused(lab: RuntimeLab, package: Path, handler: str, protocol: int = 3) -> None:
    with lab.case(f"{handler} in protocol {protocol}"):
        assert await exit_code(lab.start(package, handler=handler, protocol=protocol)) == 70


@runtime_check("runtime-loading/dotted", cites=["RUN-041", "RUN-044"])
async def test_dotted(lab: RuntimeLab) -> None:
    """The module may be dotted, through regular and namespace packages; what is no package is no prefix."""
    package = lab.package(None, {"regular/__init__.py": "", "regular/spaced/deep.py": PLAIN, "plain.py": PLAIN})
    for protocol in (1, 2, 3):
        program = await lab.start(package, handler="regular.spaced.deep:handle", protocol=protocol).ready()
        assert (await program.invoke())["output"] == "regular.spaced.deep"
    await refused(lab, package, "plain.handle:handle")


@runtime_check("runtime-loading/loaded-names", cites=["RUN-041", "PKG-003"])
async def test_loaded_names(lab: RuntimeLab) -> None:
    """A name that was loaded before is refused, the helper's own included."""
    names = ("json", "os", "sys")
    contents = {f"{name}.py": PLAIN for name in names} | {
        "ledgence/worker/__init__.py": PLAIN,
        "ledgence/own.py": PLAIN,
    }
    package = lab.package(None, contents)
    for handler in [f"{name}:handle" for name in names] + [
        "ledgence.worker:get_logger",
        "ledgence:handle",
        "ledgence.own:handle",
    ]:
        await refused(lab, package, handler)


@runtime_check("runtime-loading/only-the-package", cites=["RUN-042"])
async def test_only_the_package(lab: RuntimeLab) -> None:
    """A module that the package lacks is refused even if the standard library has it, below a prefix as well."""
    package = lab.package(PLAIN, {"xml/__init__.py": ""})
    for handler in ("colorsys:rgb_to_hsv", "xml.dom:registerDOMImplementation", "nothing:handle"):
        await refused(lab, package, handler, protocol=1)


@runtime_check("runtime-loading/inside-the-root", cites=["RUN-043"])
async def test_inside_the_root(lab: RuntimeLab) -> None:
    """Files and search paths lie inside the root, links followed, before and after the import."""
    outside = lab.package(None, {"module.py": PLAIN, "__init__.py": PLAIN})
    package = lab.package(
        "import colorsys, sys\nsys.modules[__name__] = colorsys\n",
        {"pack/__init__.py": f"__path__.append({str(outside)!r})"},
    )
    (package / "linked.py").symlink_to(outside / "module.py")
    (package / "folder").symlink_to(outside)
    for handler in (
        "linked:handle",
        "folder:handle",
        "folder.module:handle",
        "pack.module:handle",
        "program:rgb_to_hsv",
    ):
        await refused(lab, package, handler, protocol=1)


@runtime_check("runtime-loading/callable", cites=["RUN-045"])
async def test_callable(lab: RuntimeLab) -> None:
    """Any callable is a handler; what is missing, or cannot be called, is refused."""
    for source in ("", "handle = 1", "handle = None"):
        await refused(lab, lab.package(source), "program:handle", protocol=1)
    for source in (
        "class handle(dict):\n    def __init__(self, event): super().__init__(kind='any')",
        "class Callable:\n    def __call__(self, event): return {'kind': 'any'}\nhandle = Callable()",
        "import functools\nhandle = functools.partial(lambda kind, event: {'kind': kind}, 'any')",
        "class A:\n    def m(self, event): return {'kind': 'any'}\nhandle = A().m",
    ):
        for protocol in (1, 3):
            with lab.case(f"{source} in protocol {protocol}"):
                program = await lab.start(source, protocol=protocol).ready()
                assert (await program.invoke())["output"] == {"kind": "any"}


@runtime_check("runtime-loading/coroutine-functions", cites=["RUN-046", "RUN-052"])
async def test_coroutine_functions(lab: RuntimeLab) -> None:
    """Protocols 1 and 2 refuse a coroutine function, protocol 3 awaits it."""
    package = lab.package("async def handle(event): return 1")
    await refused(lab, package, "program:handle", protocol=1)
    await refused(lab, package, "program:handle", protocol=2)
    assert (await (await lab.start(package).ready()).invoke())["output"] == 1
