"""Where a trivial workflow goes: exchanges, statements and CPU, by process; four submitters, a real worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from bench.engines import ours
from bench.scenarios import Figures, Metric, Options

ABOUT = "where a trivial workflow goes: exchanges, statements, CPU by process (statements are listed with --json)"
PEERS = False
METRICS = {
    "exchanges": Metric(unit="exchanges/workflow, the submitter's looks included", better="less"),
    "looks": Metric(unit="of which are looks at the status"),
    "statements": Metric(unit="statements/workflow", better="less"),
    "coordinator_cpu": Metric(unit="ms CPU/workflow", better="less"),
    "database_cpu": Metric(unit="ms CPU/workflow", better="less"),
    "worker_cpu": Metric(unit="ms CPU/workflow, handlers included", better="less"),
    "client_cpu": Metric(unit="ms CPU/workflow"),
}
LANES = 4


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with ours(folder, options.slots, counting=True) as (own, engine):
        await engine.ask("rate", lanes=LANES, seconds=1.0)
        for _ in range(options.rounds):
            exchanges, statements, cpu = await own.exchanges(), await own.statements(), engine.cpu()
            count = (await engine.ask("rate", lanes=LANES, seconds=options.seconds))["count"]
            spent = {name: (after - cpu[name]) * 1000 / count for name, after in engine.cpu().items()}
            done = await own.exchanges() - exchanges
            sent = await own.statements() - statements
            yield {
                "exchanges": done.total() / count,
                "looks": sum(n for route, n in done.items() if route.startswith("GET")) / count,
                "statements": sent.total() / count,
                **{f"{name}_cpu": ms for name, ms in spent.items()},
                **{f"exchange {route}": n / count for route, n in done.most_common()},
                **{f"statement {text}": n / count for text, n in sent.most_common(20)},
            }
