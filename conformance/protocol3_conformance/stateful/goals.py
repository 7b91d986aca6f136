"""Where histories begin: each with a way to one of the situations that chance alone would seldom reach.

What follows is drawn, so every situation is met in many states around it. Some need time to pass; where it cannot, the
rest of the way is played all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from protocol3_conformance.stateful.machine import Operations

Goals: TypeAlias = Mapping[str, Operations]

SUBMIT, POLL, POLL_AGAIN = ("submit", 0, 0, 0), ("acquire", 0, 0, 0), ("acquire", 0, 0, 3)
DISPATCH, LATER = ("renew", 0, 0, 0), ("advance", 2, 0, 0)
SUCCEED, UNCONFIRMED, OUTAGE = ("settle", 0, 0, 0), ("settle", 0, 0, 1), ("settle", 0, 3, 0)
CONFIRM, CANCEL = ("confirm", 0, 0, 0), ("cancel", 0, 0, 0)

TASKS: Goals = {
    "submission again and otherwise": (SUBMIT, SUBMIT, ("submit", 0, 2, 0)),
    "poll again, beyond, older": (SUBMIT, POLL, POLL_AGAIN, ("acquire", 0, 0, 5), POLL, SUCCEED, POLL_AGAIN, POLL),
    "renewal again and otherwise": (SUBMIT, POLL, DISPATCH, ("renew", 0, 3, 0), ("renew", 0, 3, 2), ("renew", 0, 5, 0)),
    "settlement again and otherwise": (SUBMIT, POLL, DISPATCH, SUCCEED, SUCCEED, ("settle", 0, 2, 3)),
    "confirmation again": (SUBMIT, POLL, DISPATCH, UNCONFIRMED, CONFIRM, CONFIRM),
    "retries used up": (SUBMIT, POLL, OUTAGE, POLL, OUTAGE, ("settle", 5, 0, 0)),
    "lease lost, retried, lost": (SUBMIT, POLL, LATER, POLL, DISPATCH, LATER, SUCCEED, ("renew", 0, 0, 0)),
    "unconfirmed report, lease lost": (SUBMIT, POLL, DISPATCH, UNCONFIRMED, LATER, CONFIRM),
    "cancel while queued": (SUBMIT, CANCEL, CANCEL),
    "cancel while claimed": (SUBMIT, POLL, CANCEL, CANCEL, POLL_AGAIN, DISPATCH, SUCCEED),
    "cancel while dispatched": (SUBMIT, POLL, DISPATCH, CANCEL, ("renew", 0, 0, 0), LATER),
    "cancel while reported": (SUBMIT, POLL, DISPATCH, UNCONFIRMED, CANCEL, CONFIRM),
    "cancel before a retry": (SUBMIT, POLL, OUTAGE, CANCEL),
    "cancel after the end": (SUBMIT, POLL, DISPATCH, SUCCEED, CANCEL),
    "cancel of a lost attempt's retry": (("submit", 0, 0, 2), POLL, LATER, POLL, CANCEL, SUCCEED),
}

START, WORK, READ = ("start", 0, 0, 0), ("work", 0, 0, 0), ("context", 0, 0, 0)
CONTINUE, WITH_CHILD, WITH_OTHER = ("decide", 0, 0, 0), ("decide", 0, 0, 1), ("decide", 0, 0, 3)
JOIN_BOTH, WAIT, WAIT_FOR_A_TIME = ("decide", 0, 1, 3), ("decide", 0, 2, 4), ("decide", 0, 2, 6)
TIMER, COMPLETE, FAIL, STALE = ("decide", 0, 3, 5), ("decide", 0, 6, 0), ("decide", 0, 7, 0), ("decide", 0, 7, 1)
STEP, STEP_OTHERWISE = ("local", 0, 0, 0), ("local", 0, 0, 3)
BREAK, STOP = ("settle", 0, 5, 6), ("stop", 0, 5, 0)
EVENT, EVENT_OTHERWISE, SHORTLY = ("event", 0, 1, 1), ("event", 0, 1, 6), ("advance", 1, 0, 0)
ONE_CHILD, CHILD_FAILS, CHILD_CANCELLED = ("settle", 0, 0, 0), ("settle", 0, 2, 0), ("cancel", 0, 0, 0)

FLOWS: Goals = {
    "two inputs": (START, WORK, WITH_CHILD, WORK, JOIN_BOTH, *(4 * (ONE_CHILD,)), WORK, READ),
    "inputs of a failed child": (
        START,
        WORK,
        WITH_CHILD,
        WORK,
        JOIN_BOTH,
        WORK,
        CHILD_FAILS,
        WORK,
        CHILD_CANCELLED,
        WORK,
    ),
    "a journal read by a retry": (START, START, WORK, STEP, STEP, STEP_OTHERWISE, BREAK, WORK, STEP, READ),
    "woken by an early event": (START, EVENT, WORK, WAIT, WORK, READ, COMPLETE, EVENT, START, STOP),
    "woken by event, timer and timeout": (
        *(START, WORK, WAIT, EVENT, EVENT, EVENT_OTHERWISE, WORK, TIMER, WORK, READ),
        *(WAIT_FOR_A_TIME, SHORTLY, EVENT, WORK, READ, COMPLETE, START, STOP),
    ),
    "lease lost, retried, lost": (START, WORK, STEP, LATER, STEP, WORK, LATER),
    "retries used up": (START, WORK, BREAK, WORK, BREAK, EVENT),
    "cancel while running": (START, ("start", 0, 2, 0), WORK, STOP, STOP, READ, COMPLETE, COMPLETE),
    "cancel while waiting": (START, WORK, WAIT, STOP, EVENT),
    "cancel while failing": (START, WORK, WITH_CHILD, ("work", 1, 0, 0), WORK, FAIL, STOP, ONE_CHILD, STOP),
    "failed by its controller": (START, WORK, WITH_CHILD, WORK, FAIL, EVENT),
    "a decision that is stale": (START, WORK, STALE),
}

FORK, FORK_OTHERWISE, JOIN = ("fork", 0, 0, 1), ("fork", 0, 0, 6), ("decide", 0, 1, 0)
ONE_BRANCH, OTHER_BRANCH, LIKE_A_CHILD = ("fork", 0, 0, 0), ("fork", 0, 1, 0), ("fork", 0, 1, 3)
JOIN_INNER, INNER_LIKE_A_BRANCH, STOP_OWNER = ("decide", 0, 1, 2), ("decide", 0, 0, 2), ("stop", 3, 5, 0)
OFTEN = (
    *("two inputs", "a journal read by a retry", "woken by event, timer and timeout", "lease lost, retried, lost"),
    *("retries used up", "cancel while waiting", "cancel while failing"),
)

FORKS: Goals = {
    "fork again and otherwise": (START, WORK, FORK, FORK, FORK_OTHERWISE, BREAK, WORK, FORK),
    "a branch that succeeds, one that fails": (
        *(START, WORK, ONE_BRANCH, JOIN, WORK, COMPLETE, WORK, READ),
        *(OTHER_BRANCH, JOIN, WORK, FAIL, WORK, READ),
    ),
    "a branch that is cancelled": (START, WORK, ONE_BRANCH, JOIN, WORK, STOP, COMPLETE, WORK, READ),
    "an owned workflow that waits": (START, WORK, JOIN_INNER, WORK, WAIT, EVENT, WORK, COMPLETE, WORK, READ),
    "an owned workflow that fails": (START, WORK, JOIN_INNER, WORK, FAIL, WORK, READ),
    "an owned workflow that is cancelled": (START, WORK, JOIN_INNER, WORK, STOP, COMPLETE, WORK, READ),
    "an owner that is cancelled": (START, WORK, FORK, ("work", 1, 0, 0), STOP_OWNER, STOP_OWNER, COMPLETE, FORK),
    "keys of children and branches": (
        *(START, WORK, WITH_CHILD, WORK, LIKE_A_CHILD),
        *(("fork", 0, 2, 3), INNER_LIKE_A_BRANCH),
    ),
    **{name: FLOWS[name] for name in OFTEN},
}
