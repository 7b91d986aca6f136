"""Rules many mutants side by side, each in turn in one of a few processes."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import nullcontext

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
    """As they come. After `budget` seconds no further mutant begins."""
    end = None if budget is None else clock() + budget
    waiting = list(reversed(mutants))
    spawn = multiprocessing.get_context("spawn")  # what a fork copies of this process would be in the way
    needed = any(mutant.role == "coordinator" for mutant in mutants)
    with (
        shared() if needed else nullcontext() as common,
        ProcessPoolExecutor(jobs, mp_context=spawn, initializer=quiet) as pool,
    ):
        at_work: set[Future[Ruling]] = set()
        while waiting or at_work:
            while waiting and len(at_work) < jobs and (end is None or clock() < end):
                at_work.add(pool.submit(rule, waiting.pop(), common, effort))
            if not at_work:
                return
            done, at_work = wait(at_work, return_when=FIRST_COMPLETED)
            yield from (one.result() for one in done)
