"""One scope's queues as clients and workers see them: each command, and the answer that must come (chapters 06 and 07).

Commands change the model at once. Where an answer is one of several, the caller says afterwards which one it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.model.expected import SOME, Answer, accepted, by, fresh, known, one_of, refused
from protocol3_conformance.model.tasks import Attempt, Policy, Task, Times


@dataclass(slots=True, eq=False)
class Cursor:
    """The latest completed sequence of a consumer, and what it brought (DLV-007)."""

    queue: str
    sequence: int = 0
    attempt: Attempt | None = None


@dataclass(slots=True)
class Poll:
    """The answer to a poll. `candidates` are the tasks of which it must bring one, empty where that is settled."""

    answer: Answer
    candidates: list[Task] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Delivery:
    """Tasks of a scope. Instants are milliseconds on the caller's clock."""

    times: Times
    tasks: list[Task] = field(default_factory=list)

    def keyed(self, key: str) -> Task | None:
        """The task submitted with this key (TASK-103)."""
        return next((task for task in self.tasks if task.key == key), None)

    def submit(
        self,
        key: str,
        binding: Any,
        policy: Policy,
        now: int,
        name: Any,
        others: Iterable[Any] = (),
    ) -> Answer:
        """`binding` is the whole input; `others` are ids elsewhere that a new task must not have (TASK-043)."""
        task = self.keyed(key)
        if task is not None:
            same = task.binding == binding
            return accepted(task.snapshot, "TASK-104") if same else refused("conflict", "TASK-105")
        queue, data = binding["queue"], binding["data"]
        taken = [*(one.name for one in self.tasks), *others]
        task = Task(
            data=data, queue=queue, policy=policy, key=key, binding=binding, name=name, available=now
        )  # TASK-100
        self.tasks.append(task)
        return accepted({**task.snapshot, "task_id": by(fresh(taken), "TASK-043", "TASK-103")}, "TASK-100")

    # Acquisition

    def poll(self, cursor: Cursor, sequence: int, now: int) -> Poll:
        """DLV-315…322."""
        latest, held = cursor.sequence, cursor.attempt
        if sequence == 0 or sequence > latest + 1:
            return Poll(refused("out_of_order", "DLV-322" if sequence else "DLV-315"))
        if sequence < latest:
            return Poll(refused("obsolete_operation", "DLV-316"))
        if sequence == latest:
            return Poll(self._again(held, sequence, now))
        if held is not None and held.live(now):
            return Poll(refused("busy", "DLV-320"))
        found = [task for task in self.tasks if task.ready(cursor.queue, now)]  # DLV-022
        cursor.sequence, cursor.attempt = sequence, None
        if not found:
            return Poll(accepted({"disposition": "empty", "sequence": sequence}, "DLV-022"))
        shown = [{"disposition": "assigned", "sequence": sequence, "assignment": _offer(task)} for task in found]
        return Poll(accepted(one_of(shown), "DLV-022", "DLV-321"), found)

    def _again(self, held: Attempt | None, sequence: int, now: int) -> Answer:
        if held is None:
            return accepted({"disposition": "empty", "sequence": sequence}, "DLV-317")
        if held.live(now):
            lease = {"owner": held.owner}
            same = {"event": held.event, "lease": lease, "authority": held.authority_now(now)}
            return accepted({"disposition": "assigned", "sequence": sequence, "assignment": same}, "DLV-318")
        gone = {"task_id": held.task.name, "attempt_id": held.name}
        return accepted({"disposition": "ownership_lost", "sequence": sequence, "assignment": gone}, "DLV-319")

    def claim(self, cursor: Cursor, task: Task, now: int, *, name: Any, owner: Any, event: Any) -> Attempt:
        """What a poll brought (DLV-024, DLV-027)."""
        deadline = now + self.times.attempt
        authority = deadline + self.times.grace
        attempt = Attempt(
            name=name,
            owner=owner,
            event=event,
            task=task,
            number=len(task.attempts) + 1,
            expires=min(now + self.times.lease, authority),
            deadline=deadline,
            authority=authority,
        )
        task.attempts.append(attempt)
        task.state, task.why = "active", ("DLV-024",)
        task.history.append(("claimed", attempt))
        cursor.attempt = attempt
        return attempt

    # Under a lease

    def renew(self, cursor: Cursor, attempt: Attempt, sequence: int, intent: str, until: Any, now: int) -> Answer:
        """DLV-329…334; `cursor` is that of the attempt's consumer, `until` names the `expires_at` of the reply."""
        if cursor.attempt is not attempt or not attempt.live(now):
            return refused("ownership_lost", "DLV-329" if cursor.attempt is not attempt else "DLV-054")
        if sequence == 0 or sequence > attempt.sequence + 1:
            return refused("out_of_order", "DLV-330")
        if sequence < attempt.sequence:
            return refused("obsolete_operation", "DLV-331")
        if sequence == attempt.sequence:
            same = intent == attempt.intent
            return accepted(self._repeated(attempt, now), "DLV-332") if same else refused("conflict", "DLV-333")
        attempt.sequence, attempt.intent, attempt.until = sequence, intent, until
        attempt.expires = min(now + self.times.lease, attempt.authority)  # DLV-056
        starts = intent == "dispatch" and not attempt.stopped(now) and attempt.command is None
        if starts and not attempt.started:  # DLV-058, DLV-059
            attempt.started = True
            attempt.task.history.append(("dispatch_authorized", attempt))
        return accepted(attempt.authority_now(now), "DLV-334")

    def _repeated(self, attempt: Attempt, now: int) -> Any:
        """DLV-057: the lease ends when it did."""
        ends = {} if attempt.until is None else {"expires_at": by(attempt.until, "DLV-057")}
        return {**attempt.authority_now(now), **ends}

    def settle(self, attempt: Attempt, command: Any, receipt: Any, now: int) -> Answer:
        """DLV-336, steps 6 to 8; `receipt` names the instant of acceptance."""
        task = attempt.task
        if attempt.command is not None:
            if attempt.command != command:
                return refused("conflict", "DLV-076")
            return accepted(self._settled(attempt, repeated=True), "DLV-074")
        if not attempt.live(now):
            return refused("ownership_lost", "DLV-077")
        report = command["report"]
        attempt.command, attempt.receipt = command, receipt
        attempt.started |= report["kind"] == "completed" or report["report"]["execution_may_have_started"]  # DLV-081
        attempt.confirmed = command["quiescence"] == "confirmed"
        task.history.append(("report_accepted", attempt))
        if attempt.confirmed:  # DLV-083, DLV-084
            task.finalise(now)
        return accepted(self._settled(attempt, repeated=False), "DLV-085")

    def _settled(self, attempt: Attempt, *, repeated: bool) -> Any:
        """DLV-085, DLV-074."""
        receipt = {
            "operation_id": attempt.command["operation_id"],
            "task_id": attempt.task.name,
            "attempt_id": attempt.name,
            "accepted_at": attempt.receipt if repeated else SOME,
        }
        return {"receipt": receipt, "already_accepted": repeated, "task_state": attempt.task.shown_state}

    def confirm(self, attempt: Attempt, now: int) -> Answer:
        """DLV-342."""
        if attempt.confirmed:
            return accepted(attempt.task.shown_state, "DLV-101")
        if not attempt.live(now):
            return refused("ownership_lost", "DLV-103")
        if attempt.command is None:
            return refused("invalid_input", "DLV-102")
        attempt.confirmed = True
        attempt.task.history.append(("cleanup_confirmed", attempt))
        attempt.task.finalise(now)
        return accepted(attempt.task.shown_state, "DLV-100")

    def cancel(self, task: Task, now: int) -> Answer:
        return task.cancel(now, self.times.grace)

    # Time

    def lost(self, now: int) -> list[Task]:
        """Those whose lease is over by then."""
        return [task for task in self.tasks if task.current and not task.current.live(now)]

    def recover(self, now: int) -> None:
        """DLV-110…112."""
        for task in self.lost(now):
            task.lose(now)

    def order_open(self, _: int) -> bool:
        """Whether what is due by then may come about in several orders that reads can tell apart."""
        return False

    def due(self) -> list[int]:
        """When something will happen by itself, or be judged otherwise."""
        attempts = [task.current for task in self.tasks if task.current]
        ends = [instant for one in attempts for instant in (one.expires, one.authority, one.deadline)]
        return [*ends, *(task.available for task in self.tasks if task.state == "queued")]


def _offer(task: Task) -> Any:
    """What an assignment of this task shows (DLV-027, DLV-028, DLV-043, ACT-010)."""
    event = {"data": task.data, "ldgattemptno": by(len(task.attempts) + 1, "DLV-024")}
    if task.owner is not None:  # ACT-004, ACT-005
        event["ldgworkflowid"] = by(known(task.owner.name), "ACT-004")
    lease = {"task_id": known(task.name), "attempt_id": by(fresh(one.name for one in task.attempts), "DLV-027")}
    first = by({"renew_sequence": 0, "dispatch_allowed": False, "cancel_requested": False}, "DLV-028")
    return {"event": event, "lease": {"owner": lease}, "authority": first}
