"""Imported in every pytest run of the environment, so: no imports, no options, one hook."""


def pytest_load_initial_conftests(early_config, args):  # type: ignore[no-untyped-def]  # no imports, so no types
    """Load the suite's plugin when an argument names the suite, as `--pyargs protocol3_conformance` does."""
    if any(argument.partition("::")[0].partition(".")[0] == "protocol3_conformance" for argument in args):
        early_config.pluginmanager.import_plugin("protocol3_conformance.plugin")
