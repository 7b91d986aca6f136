"""Generated requests against our coordinator, judged by the OpenAPI document and the schemas' own keywords.

    python tools/fuzz_api.py                              what CI runs: a fixed seed, some thousand cases
    python tools/fuzz_api.py --examples 300 --seed 7      longer, and other cases

One check for the generator: enough cases, no reply a 5xx, of an undocumented status, of another content type or other
than its schema says, every body that breaks its schema refused. One check per route: at least one request succeeded.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from protocol3_spec import bundle, routes
from system import ROOT, System, SystemFailure

LEAST_CASES = 3000
PROGRAMS = ("hello", "mixed-workflow")
CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance"),
    *("response_schema_conformance", "unsupported_method", "allow_header_conformance", "protocol_vocabulary"),
    "request_verdict",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=20, help="generated cases per route beside the systematic ones")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="protocol3-fuzz-"))
    folder.chmod(0o755)
    try:
        exit_code = run(folder, options.examples, options.seed)
        failed = judge(json.loads((folder / "seen.json").read_text()), exit_code, options.seed)
    except (SystemFailure, OSError) as failure:
        print(f"fuzz: {failure}; see {folder}", file=sys.stderr)
        return 1
    if failed:
        print(f"the logs are in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


def run(folder: Path, examples: int, seed: int) -> int:
    """Start the system, then the generator in its own environment; its exit code."""
    tool = ROOT / ".envs/schemathesis/bin/schemathesis"
    if not tool.exists():
        raise SystemFailure(f"{tool.relative_to(ROOT)} is missing; run ./dev api-fuzz")
    document = folder / "openapi.json"
    document.write_text(json.dumps(generatable(bundle())))
    with System(folder, tenant="fuzz", namespace="api") as system:
        programs = {name: system.publish(name)["program"] for name in PROGRAMS}
        system.start_coordinator()
        variables = {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "tools"), str(ROOT / "spec")]),
            "SCHEMATHESIS_HOOKS": "fuzz_hooks",
            "FUZZ_URL": system.url,
            "FUZZ_SCOPE": json.dumps({"tenant_id": system.tenant, "namespace": system.namespace}),
            "FUZZ_PROGRAMS": json.dumps(programs),
            "FUZZ_SEEN": str(folder / "seen.json"),
        }
        words = ["run", document, "--url", system.url, f"--seed={seed}", f"--max-examples={examples}"]
        words += ["--phases=coverage,fuzzing", f"--checks={','.join(CHECKS)}", "--continue-on-failure"]
        words += ["--suppress-health-check=all", "--request-timeout=40", "--warnings=off", "--generation-database=none"]
        return subprocess.run([tool, *words], cwd=folder, env=os.environ | variables, check=False).returncode


def generatable(document: dict[str, Any]) -> dict[str, Any]:
    """The routes that every coordinator of ours offers, with request schemas for a generator that counts no bytes."""
    offered = {(route["method"].lower(), route["path"]) for route in routes()}
    document["paths"] = {
        path: methods
        for path, methods in document["paths"].items()
        if path.startswith("/health/") or offered & {(method, path) for method in methods}
    }
    components = document["components"]
    components["schemas"] |= {f"{name}Sent": sent(schema) for name, schema in components["schemas"].items()}
    components["parameters"] = sent(components["parameters"])
    for methods in document["paths"].values():
        if "post" in methods:
            methods["post"]["requestBody"] = sent(methods["post"]["requestBody"])
    return document


def sent(value: Any) -> Any:
    """A schema of requests: texts short enough for most of what they hold, trace states that are some."""
    if isinstance(value, list):
        return [sent(item) for item in value]
    if not isinstance(value, dict):
        return value
    schema = {name: sent(item) for name, item in value.items()}
    if isinstance(schema.get("$ref"), str) and "/schemas/" in schema["$ref"]:
        schema["$ref"] += "Sent"
    if isinstance(schema.get("x-utf8-bytes"), int):
        schema["maxLength"] = schema["x-utf8-bytes"] // 4
    if schema.get("x-text") == "tracestate":
        return {"type": "string", "enum": ["", "vendor=one", "a=1, b@c=2"]}
    return schema


def judge(seen: dict[str, dict[str, int]], exit_code: int, seed: int) -> int:
    """Print what every route answered, then the sum; the number of failed checks."""
    failed = 0
    for route in routes():
        name = f"{route['method']} {route['path']}"
        answers = seen.get(name, {})
        failed += "200" not in answers
        note = "" if "200" in answers else "   no request succeeded"
        print(f"  {name:<46} {'  '.join(f'{status}: {count}' for status, count in sorted(answers.items()))}{note}")
    cases = sum(count for answers in seen.values() for count in answers.values())
    print(f"{cases} cases, seed {seed}")
    if exit_code or cases < LEAST_CASES:
        print(f"the generator ended with {exit_code}; at least {LEAST_CASES} cases are wanted")
        failed += 1
    print(f"{len(routes()) + 1 - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
