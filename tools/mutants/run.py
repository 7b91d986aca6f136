"""Rules many mutants side by side, each in turn in one of a few processes."""

from __future__ import annotations

import _thread
import io
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection

from mutants.entries import Mutant
from mutants.judging import Effort, Ruling, quiet, rule
from mutants.subjects import shared


def rulings(
    mutants: Sequence[Mutant],
    effort: Effort,
    *,
    jobs: int,
    budget: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Ruling]:
    """As they come. After `budget` seconds no further mutant begins. What is under way ends with this process."""
    end = None if budget is None else clock() + budget
    waiting = list(reversed(mutants))
    spawn = multiprocessing.get_context("spawn")  # what a fork copies of this process would be in the way
    needed = any(mutant.role == "coordinator" for mutant in mutants)
    watched, held = spawn.Pipe(duplex=False)
    with (
        shared() if needed else nullcontext() as common,
        held,
        ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_begin, initargs=(watched,)) as pool,
    ):
        at_work: set[Future[Ruling]] = set()
        try:
            while waiting or at_work:
                while waiting and len(at_work) < jobs and (end is None or clock() < end):
                    at_work.add(pool.submit(rule, waiting.pop(), common, effort))
                if not at_work:
                    return
                done, at_work = wait(at_work, return_when=FIRST_COMPLETED)
                yield from (one.result() for one in done)
        except BaseException:
            held.close()  # the pool waits for what is under way
            raise


def _begin(parent: Connection) -> None:
    """In a process of the pool: be quiet, and end with the process that started it, however that ends."""
    quiet()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what was started in the background
    threading.Thread(target=_interrupted_after, args=(parent,), daemon=True).start()


def _interrupted_after(parent: Connection) -> None:
    with suppress(EOFError):
        parent.recv_bytes()  # it never sends anything
    sys.stderr = io.StringIO()  # nobody wants to know where it was
    _thread.interrupt_main()  # targets are ended on the way out
