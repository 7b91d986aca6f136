"""Our system as it is measured: real processes over loopback, on a database that can be asked what was done."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
from prometheus_client.parser import text_string_to_metric_families

from protocol3.cli.fixtures import MACHINES, SYSTEMS
from protocol3.store.embedded import EmbeddedPostgres
from system import System, migrate

PROGRAM = Path(__file__).parent / "program"
CONNECTIONS = 2_000
COUNTING = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "top"}


class Own:
    """`pids` by process: coordinator, database and, if there is one, worker."""

    def __init__(
        self, system: System, http: aiohttp.ClientSession, database: asyncpg.Connection[Any], pids: Mapping[str, int]
    ) -> None:
        self.system, self.http, self.database, self.pids = system, http, database, pids
        self.scope = {"tenant_id": system.tenant, "namespace": system.namespace}

    async def get(self, path: str, **query: str) -> Any:
        async with self.http.get(self.system.url + path, params=self.scope | query) as reply:
            reply.raise_for_status()
            return await reply.json()

    async def post(self, path: str, body: Any) -> Any:
        async with self.http.post(self.system.url + path, json=body) as reply:
            if reply.status != 200:
                raise RuntimeError(f"{path}: {reply.status} {await reply.text()}")
            return await reply.json()

    async def submit(self, space: str, program: str, key: str, data: Any, queue: str | None = None) -> Any:
        """`space` is tasks or workflows; the snapshot."""
        work = {"queue": queue or self.system.queue, "program": {"id": program, "version": "1.0.0"}, "data": data}
        return await self.post(f"/v1/{space}", {"idempotency_key": key, "input": self.scope | work})

    async def exchanges(self) -> Counter[str]:
        """Answered exchanges by route, as the coordinator counts them."""
        host = json.loads(self.system.log("coordinator").read_text().splitlines()[0])["metrics_url"]
        async with self.http.get(host) as reply:
            families = text_string_to_metric_families(await reply.text())
        counts: Counter[str] = Counter()
        for sample in (sample for family in families for sample in family.samples):
            if sample.name == "protocol3_requests_total":
                counts[f"{sample.labels['method']} {sample.labels['route']}"] += round(sample.value)
        return counts

    async def statements(self) -> Counter[str]:
        """Calls of every statement so far; only with `counting`."""
        rows = await self.database.fetch(
            "select query, sum(calls)::bigint as calls from pg_stat_statements s join pg_database d on d.oid = s.dbid "
            "where d.datname = current_database() group by query"
        )
        ours = "pg_stat_statements"
        return Counter({" ".join(row["query"].split()): row["calls"] for row in rows if ours not in row["query"]})


@asynccontextmanager
async def own_system(folder: Path, *, slots: int = 0, counting: bool = False) -> AsyncIterator[Own]:
    """Database, coordinator and, if wanted, one worker with so many slots."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    async with AsyncExitStack() as stack:
        postgres = EmbeddedPostgres(folder / "data", settings=COUNTING if counting else None).start()
        stack.callback(postgres.stop)
        migrate(postgres.dsn)
        database = await asyncpg.connect(postgres.dsn, server_settings={"search_path": "protocol3, public"})
        stack.push_async_callback(database.close)
        if counting:
            await database.execute("create extension if not exists pg_stat_statements with schema public")
        system = stack.enter_context(System(folder / "system", tenant="bench", database_url=postgres.dsn))
        for program in ("echo", "hello"):
            system.publish(program)
        publish_own(system)
        system.start_coordinator("--log-level", "warning", "--metrics-listen", "127.0.0.1:0")
        pids = {"coordinator": system.pid("coordinator"), "database": postgres.pid}
        if slots:
            system.start_worker(concurrency=slots)
            pids["worker"] = system.pid("worker")
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS)))
        yield Own(system, http, database, pids)


def publish_own(system: System) -> None:
    """The program of the scenarios, for this interpreter and machine."""
    prepared = system.folder / "packages/bench"
    shutil.copytree(PROGRAM, prepared, ignore=shutil.ignore_patterns("__pycache__"))
    manifest = {
        "schema_version": 1,
        "program": {"id": "bench", "version": "1.0.0"},
        "runtime": {"kind": "python", "python": "{}.{}".format(*sys.version_info), "protocol": 3},
        "handler": "program:handle",
        "platform": {"os": SYSTEMS[platform.system()], "arch": MACHINES[platform.machine()]},
    }
    (prepared / "ledgence-program.json").write_text(json.dumps(manifest))
    system.publish_folder(prepared)
