"""`python -m protocol3_conformance.breaker`: serve the proxy until interrupted."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import click

from protocol3_conformance.breaker.breakings import BREAKINGS
from protocol3_conformance.breaker.proxy import Proxy
from protocol3_conformance.wire.peer import Endpoint

CATALOGUE = "\n".join(f"  {one.name:27} {one.sentence} {' '.join(one.rules)}" for one in BREAKINGS.values())


@click.command(epilog=f"\b\nBreakings:\n{CATALOGUE}")
@click.argument("breaking", type=click.Choice(list(BREAKINGS)), metavar="BREAKING")
@click.option("--target", required=True, metavar="URL", help="The service behind the proxy.")
@click.option("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="Where the proxy listens; port 0: any.")
def main(breaking: str, target: str, listen: str) -> None:
    """Break one rule of a service, for everybody who goes through this proxy. Prints the proxy's URL."""
    host, _, port = listen.rpartition(":")
    try:
        endpoint = Endpoint.parse(target)
        number = int(port)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(Proxy(endpoint, BREAKINGS[breaking]), host or "127.0.0.1", number))


async def _serve(proxy: Proxy, host: str, port: int) -> None:
    server = await proxy.serve(host, port)
    bound_host, bound_port = server.sockets[0].getsockname()[:2]
    click.echo(f"http://{bound_host}:{bound_port}")
    await server.serve_forever()


if __name__ == "__main__":
    main()
