import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner, Result

from protocol3.cli.root import root

SCOPE = ["--tenant", "acme", "--namespace", "demo"]


class Coordinator:
    """Replies in the order they were put in `replies`: (status, JSON value or raw bytes, content type)."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes, dict[str, str]]] = []
        self.replies: list[tuple[int, Any, str]] = []
        coordinator = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                coordinator.requests.append((self.command, self.path, body, dict(self.headers)))
                status, value, kind = coordinator.replies.pop(0)
                if status == 0:
                    self.close_connection = True
                    return
                content = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = answer

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def reply(self, value: Any, status: int = 200, kind: str = "application/json") -> None:
        self.replies.append((status, value, kind))

    def drop(self) -> None:
        """Close the connection instead of a reply."""
        self.replies.append((0, None, ""))

    @property
    def command(self) -> Any:
        """The body of the last request."""
        return json.loads(self.requests[-1][2])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Shell:
    """Runs `protocol3` commands in this process, against the scripted coordinator unless told otherwise."""

    def __init__(self, url: str) -> None:
        self.environment: dict[str, str | None] = {"PROTOCOL3_SERVER": url}

    def __call__(self, *words: str, input: bytes | None = None, scoped: bool = True) -> Result:
        arguments = [*words, *(SCOPE if scoped else [])]
        return CliRunner().invoke(root, arguments, input=input, env=self.environment, prog_name="protocol3")


@pytest.fixture
def coordinator() -> Iterator[Coordinator]:
    scripted = Coordinator()
    yield scripted
    scripted.close()


@pytest.fixture
def shell(coordinator: Coordinator) -> Shell:
    return Shell(coordinator.url)
