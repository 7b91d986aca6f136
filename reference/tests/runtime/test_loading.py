"""Which handlers are loaded, and from where (chapter 21, Loading the handler)."""

import pytest

PLAIN = "def handle(event):\n    return __name__\n"


def refused(host):
    assert host.any_frame() is None
    return host.wait() == 70


@pytest.mark.parametrize("protocol", [1, 2, 3])
def test_a_module_may_be_dotted(hosts, package, protocol):
    """RUN-041, RUN-044: regular and namespace packages on the way."""
    files = {"regular/__init__.py": "", "regular/spaced/deep.py": PLAIN}
    host = hosts(package(files=files), handler="regular.spaced.deep:handle", protocol=protocol).ready()
    assert host.invoke()["output"] == "regular.spaced.deep"


@pytest.mark.parametrize("name", ["json", "os", "sys"])
def test_a_name_that_is_already_loaded_is_refused(hosts, package, name):
    """RUN-041, vector 'handler name'."""
    assert refused(hosts(package(files={f"{name}.py": PLAIN}), handler=f"{name}:handle", protocol=3))


def test_the_helper_itself_is_refused(hosts, package):
    """RUN-041, PKG-003."""
    files = {"ledgence/worker/__init__.py": PLAIN, "ledgence/own.py": PLAIN}
    for handler in ("ledgence.worker:get_logger", "ledgence:handle", "ledgence.own:handle"):
        assert refused(hosts(package(files=files), handler=handler, protocol=3))


def test_asyncio_is_refused_under_protocol_3_only(hosts, package):
    """RUN-011, RUN-041."""
    root = package(files={"asyncio.py": PLAIN})
    assert refused(hosts(root, handler="asyncio:handle", protocol=3))
    assert hosts(root, handler="asyncio:handle", protocol=1).ready().invoke()["output"] == "asyncio"


@pytest.mark.parametrize("handler", ["colorsys:rgb_to_hsv", "xml.dom:registerDOMImplementation", "nothing:handle"])
def test_a_module_outside_the_package_is_refused(hosts, package, handler):
    """RUN-042."""
    assert refused(hosts(package(PLAIN), handler=handler, protocol=1))


def test_a_prefix_in_the_package_does_not_open_the_standard_library(hosts, package):
    """RUN-042: `xml` is ours, `xml.dom` would be found elsewhere only."""
    assert refused(hosts(package(files={"xml/__init__.py": ""}), handler="xml.dom:handle", protocol=1))


def test_a_module_linked_from_outside_is_refused(hosts, package, tmp_path):
    """RUN-043."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "module.py").write_text(PLAIN)
    (outside / "__init__.py").write_text(PLAIN)
    root = package(PLAIN)
    (root / "linked.py").symlink_to(outside / "module.py")
    (root / "folder").symlink_to(outside)
    for handler in ("linked:handle", "folder:handle", "folder.module:handle"):
        assert refused(hosts(root, handler=handler, protocol=1))


def test_a_search_path_that_leads_outside_is_refused(hosts, package, tmp_path):
    """RUN-043: also when importing the package changes it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "module.py").write_text(PLAIN)
    root = package(files={"pack/__init__.py": f"__path__.append({str(outside)!r})"})
    assert refused(hosts(root, handler="pack.module:handle", protocol=1))


def test_a_module_that_replaces_itself_by_one_from_outside_is_refused(hosts, package):
    """RUN-043: the imported module is checked again."""
    source = "import colorsys, sys\nsys.modules[__name__] = colorsys\n"
    assert refused(hosts(package(source), handler="program:rgb_to_hsv", protocol=1))


def test_a_prefix_that_is_no_package_is_refused(hosts, package):
    """RUN-044."""
    root = package(files={"plain.py": PLAIN, "plain/handle.py": PLAIN})
    (root / "plain" / "handle.py").unlink()
    assert refused(hosts(root, handler="plain.handle:handle", protocol=1))


@pytest.mark.parametrize("source", ["", "handle = 1", "handle = None"])
def test_a_handler_that_is_missing_or_not_callable_is_refused(hosts, package, source):
    """RUN-045."""
    assert refused(hosts(package(source), protocol=1))


@pytest.mark.parametrize(
    "source",
    [
        "class handle(dict):\n    def __init__(self, event): super().__init__(kind='class')",
        "class Callable:\n    def __call__(self, event): return {'kind': 'class'}\nhandle = Callable()",
        "import functools\nhandle = functools.partial(lambda kind, event: {'kind': kind}, 'class')",
        "class A:\n    def m(self, event): return {'kind': 'class'}\nhandle = A().m",
    ],
)
@pytest.mark.parametrize("protocol", [1, 3])
def test_any_callable_is_a_handler(hosts, package, source, protocol):
    """RUN-045."""
    assert hosts(package(source), protocol=protocol).ready().invoke()["output"] == {"kind": "class"}


@pytest.mark.parametrize(
    "source",
    [
        "async def handle(event): return 1",
        "import functools\nasync def f(n, event): return n\nhandle = functools.partial(f, 1)",
        "class A:\n    async def m(self, event): return 1\nhandle = A().m",
    ],
)
def test_a_coroutine_function_needs_protocol_3(hosts, package, source):
    """RUN-046."""
    root = package(source)
    assert refused(hosts(root, protocol=1))
    assert refused(hosts(root, protocol=2))
    assert hosts(root, protocol=3).ready().invoke()["output"] == 1


def test_application_code_may_import_the_standard_library_and_vendored_modules(hosts, package):
    """RUN-047."""
    source = """
        import vendored.module
        def handle(event):
            import decimal, json
            try:
                import pytest
            except ImportError:
                return [vendored.module.NAME, str(decimal.Decimal(1))]
    """
    host = hosts(package(source, {"vendored/module.py": "NAME = 'vendored'"}), protocol=1).ready()
    assert host.invoke()["output"] == ["vendored", "1"]
