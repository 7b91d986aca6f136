"""What real engines got wrong with attempts, events and timers, played here; `troubles.toml` says where it was seen."""

from __future__ import annotations

import asyncio

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.controls import HOLD
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.coordinator.contests import ONCE, RETRIED, begun
from protocol3_conformance.scenarios.coordinator.test_expiry import EXPIRY, lost
from protocol3_conformance.wire.strict_json import encode, same

HOUR, DAY = 3_600_000, 86_400_000


@scenario("trouble/second-loss-as-fast-as-the-first", cites=["DLV-110", "DLV-111", "DLV-027"], profile=EXPIRY)
async def test_second_loss_as_fast_as_the_first(lab: Lab) -> None:
    """An attempt that is lost after a lost one is noticed at the end of its lease, not of the overall timeout."""
    await lab.client.task(retry_policy=RETRIED, attempt_timeout_ms=bound("MAX_ATTEMPT_TIMEOUT_MS"))
    worker = await lab.worker()
    for number in (1, 2):
        claim = await worker.running()
        assert claim.event["ldgattemptno"] == number
        await lost(claim, claim.assignment["authority"])
        assert (await lab.client.task_until(claim.task_id, "queued"))["attempt_count"] == number
    last = await worker.running()
    assert (last.task_id, last.event["ldgattemptno"]) == (claim.task_id, 3)
    assert (await last.succeed())["task_state"] == "succeeded"


@scenario("trouble/attempts-count-deliveries", cites=["DLV-026", "DLV-027", "DLV-028", "TASK-053"], profile=EXPIRY)
async def test_attempts_count_deliveries(lab: Lab) -> None:
    """Waiting in the queue for longer than a lease and an attempt may last costs no attempt and no running time."""
    timeout_ms = bound("MIN_ATTEMPT_TIMEOUT_MS")
    task = await lab.client.task(retry_policy=ONCE, attempt_timeout_ms=timeout_ms)
    await lab.pass_time(timeout_ms + bound("CLEANUP_GRACE_MS"))
    status = (await lab.client.status(task["task_id"])).accepted()
    assert (status["state"], status["attempt_count"]) == ("queued", 0)
    claim = await (await lab.worker()).claim()
    assert claim.event["ldgattemptno"] == 1
    assert claim.assignment["authority"]["execution_remaining_ms"] == timeout_ms
    assert (await claim.succeed())["task_state"] == "succeeded"


@scenario("trouble/renewal-around-the-end-of-a-lease", cites=["DLV-056", "DLV-110", "DLV-025"], profile=EXPIRY)
async def test_renewal_around_the_end_of_a_lease(lab: Lab) -> None:
    """A heartbeat shortly before the end keeps the attempt alone with its task; one after the end comes too late."""
    await lab.client.task(retry_policy=RETRIED)
    worker = await lab.worker()
    claim = await worker.running()
    margin_ms = 5000
    for _ in range(2):
        await lab.pass_time(bound("LEASE_MS") - margin_ms)
        authority = (await claim.renew("keep_alive")).accepted()
        await worker.nothing()
    await lost(claim, authority)
    (await claim.renew("keep_alive")).refused("ownership_lost")
    assert (await lab.client.status(claim.task_id)).accepted()["attempt_count"] == 1
    assert (await worker.claim()).event["ldgattemptno"] == 2
    await worker.nothing()


@scenario("trouble/late-failure-of-a-cancelled-attempt", cites=["TASK-207", "TASK-206", "DLV-112"], profile=EXPIRY)
async def test_late_failure_of_a_cancelled_attempt(lab: Lab) -> None:
    """A retryable failure reported after the cancelled attempt was given up is refused and starts no retry."""
    await lab.client.task(retry_policy=RETRIED)
    worker = await lab.worker()
    claim = await worker.running()
    assert (await lab.client.cancel_task(claim.task_id)).accepted() == "active"
    await lost(claim, (await claim.renew("keep_alive")).accepted())
    before = (await lab.client.inspect(claim.task_id)).accepted()
    (await claim.settle(claim.breakdown("io"))).refused("ownership_lost")
    assert (await lab.client.inspect(claim.task_id)).accepted() == before
    assert (before["state"], before["attempt_count"]) == ("cancelled", 1)
    await worker.nothing()


@scenario("trouble/hang-up-while-a-task-is-handed-out", cites=["DLV-034", "DLV-013", "DLV-024", "HTTP-084"])
async def test_hang_up_while_a_task_is_handed_out(lab: Lab) -> None:
    """A poll whose client hangs up while its task arrives: the repeated sequence gets the task, or it is still free."""
    for _ in range(6):
        worker = await lab.worker()
        body = encode(worker.command(1, wait_ms=bound("MAX_WAIT_MS")))
        exchange = lab.peer.record("POST", "/v1/acquisitions", lab.peer.standard_headers("POST", body), body)
        connection = await lab.peer.connect()
        await connection.send(lab.peer.bytes_of(exchange))
        submitting = asyncio.ensure_future(lab.client.task())
        await asyncio.sleep(lab.random.uniform(0, 0.01))  # any moment of the hand-over will do
        connection.abort()
        task = await submitting
        answer = await lab.until(
            "the repeated sequence is answered",
            lambda worker=worker: worker.acquire(1, wait_ms=lab.target.patience.poll_ms),  # type: ignore[misc]  # a default binds the loop's value
            lambda seen: seen.code != "unavailable",
            show=lambda seen: seen.value,
        )
        reply = answer.accepted()
        if reply["disposition"] == "empty":
            reply = (await worker.acquire(2, wait_ms=bound("MAX_WAIT_MS"))).accepted()
        assert reply["assignment"]["lease"]["owner"]["task_id"] == task["task_id"]
        assert await lab.client.reasons(task["task_id"]) == ["submitted", "claimed"]


@scenario("trouble/hand-over-nobody-took", cites=["DLV-110", "DLV-024", "DLV-111"], profile=f"{EXPIRY} faults")
async def test_hand_over_nobody_took(lab: Lab) -> None:
    """A task whose assignment never arrived reaches the next worker when the lease ends, not later."""
    task = await lab.client.task(retry_policy=RETRIED)
    gone, worker = await lab.worker(), await lab.worker()
    rule = await lab.controls.rule("/v1/acquisitions", {"kind": "drop"}, "committed")
    body = encode(gone.command(1))
    exchange = lab.peer.record("POST", "/v1/acquisitions", lab.peer.standard_headers("POST", body), body)
    connection = await lab.peer.connect()
    await connection.send(lab.peer.bytes_of(exchange))
    await lab.controls.until_hit(rule)
    connection.abort()
    await worker.nothing()
    await lab.pass_time(bound("LEASE_MS"))
    claim = await worker.claim()
    assert (claim.task_id, claim.event["ldgattemptno"]) == (task["task_id"], 2)


@scenario("trouble/no-delay-after-the-last-attempt", cites=["DLV-119", "DLV-116", "ACT-043", "ACT-041"])
async def test_no_delay_after_the_last_attempt(lab: Lab) -> None:
    """With attempts exhausted a task and a workflow end at once, however long the retry delay is."""
    policy = {"max_attempts": 1, "retry_delay_ms": bound("MAX_RETRY_DELAY_MS")}
    worker, activation = await begun(lab, retry_policy=policy)
    await lab.client.task(retry_policy=policy)
    claim = await worker.running()
    assert (await claim.break_down())["task_state"] == "failed"
    assert (await lab.client.result(claim.task_id)).accepted()["outcome"]["kind"] == "failed"
    assert (await activation.break_down())["task_state"] == "failed"
    error = (await lab.client.outcome_until(activation.workflow_id, "failed"))["error"]
    assert error["kind"] == "workflow_activation_failed"


@scenario("trouble/key-of-a-task-between-attempts", cites=["TASK-104", "TASK-105", "TASK-110", "DLV-117"])
async def test_key_of_a_task_between_attempts(lab: Lab) -> None:
    """No other task gets the key of one that waits for its retry; the retry comes and ends."""
    key, policy = lab.unique("key"), {"max_attempts": 2, "retry_delay_ms": 500}
    await lab.client.task(key=key, retry_policy=policy)
    worker = await lab.worker()
    first = await worker.running()
    assert (await first.break_down())["task_state"] == "queued"
    (await lab.client.submit_task(key=key, data="successor", retry_policy=policy)).refused("conflict")
    again = await lab.client.task(key=key, retry_policy=policy)
    assert again["task_id"] == first.task_id
    second = await worker.running()
    assert second.task_id == first.task_id
    assert (await second.succeed())["task_state"] == "succeeded"
    assert (await lab.client.task(key=key, retry_policy=policy))["state"] == "succeeded"
    await worker.nothing()


@scenario("trouble/start-and-event-in-one-breath", cites=["EVT-015", "EVT-021", "TMR-012", "TMR-022"])
async def test_start_and_event_in_one_breath(lab: Lab) -> None:
    """Events right after the start, many times over: each is there for the wait that comes later, none times out."""
    worker = await lab.worker()

    async def start(number: int) -> tuple[str, int]:
        workflow_id = (await lab.client.workflow())["workflow_id"]
        (await lab.client.send_event(workflow_id, "signal", lab.client.event(data=number))).accepted()
        return workflow_id, number

    sent = dict(await asyncio.gather(*(start(number) for number in range(25))))
    activations = [await worker.activation() for _ in sent]
    await asyncio.gather(*(activation.wait_event("signal", 0) for activation in activations))
    woken = [await worker.activation() for _ in sent]
    assert {each.workflow_id: each.wake("event")["event"]["data"] for each in woken} == sent
    await worker.nothing()


@scenario("trouble/events-during-an-open-decision", cites=["EVT-015", "EVT-021", "TMR-012"], profile="core faults")
async def test_events_during_an_open_decision(lab: Lab) -> None:
    """Events that come while a decision is settled and not applied are kept; each wakes its own wait, in turn."""
    worker, first = await begun(lab)
    rule = await lab.controls.rule("decision.apply", HOLD)
    await first.wait_event("one", HOUR)
    await lab.controls.until_held(rule)
    for key in ("two", "one"):
        (await lab.client.send_event(first.workflow_id, key, lab.client.event(data=key))).accepted()
    held = (await lab.client.workflow_status(first.workflow_id)).accepted()
    assert (held["state"], held["revision"]) == ("running", 0)
    await lab.controls.clear()
    second = await worker.activation()
    assert second.wake("event")["event"]["data"] == "one"
    await second.wait_event("two", HOUR)
    third = await worker.activation()
    assert (third.wake("event")["event"]["data"], third.frozen["revision"]) == ("two", 2)
    await worker.nothing()


@scenario("trouble/early-event-and-a-failed-attempt", cites=["EVT-015", "EVT-021", "ACT-003", "TMR-021"])
async def test_early_event_and_a_failed_attempt(lab: Lab) -> None:
    """An event that came before the wait outlives failed attempts before the wait and after the wake."""
    worker, first = await begun(lab, retry_policy=RETRIED)
    event = lab.client.event(data="early")
    (await lab.client.send_event(first.workflow_id, "k", event)).accepted()
    await first.break_down()
    await (await worker.activation()).wait_event("k", 0)
    wakes = []
    for _ in range(2):
        woken = await worker.activation()
        wakes.append(woken.wake("event"))
        await woken.break_down()
    assert same(wakes[0], wakes[1])
    assert same(wakes[0]["event"], event)
    await (await worker.activation()).complete()
    await lab.client.workflow_until(first.workflow_id, "succeeded", revision=2)


@scenario("trouble/event-during-a-timer-wait", cites=["TMR-014", "EVT-012", "TMR-003", "TMR-020"], slow=True)
async def test_event_during_a_timer_wait(lab: Lab) -> None:
    """Events under the timer's key or another one do not fire it; it fires at its own time."""
    worker, first = await begun(lab)
    delay_ms = 1500
    settled = await first.wait_timer("nap", delay_ms)
    await lab.client.workflow_until(first.workflow_id, "waiting", "running", revision=1)
    (await lab.client.send_event(first.workflow_id, "nap", lab.client.event())).refused("obsolete_operation")
    (await lab.client.send_event(first.workflow_id, "other", lab.client.event())).accepted()
    woken = await worker.activation()
    deadline = woken.wake("timer")["deadline"]
    assert deadline >= settled["receipt"]["accepted_at"] + delay_ms
    assert (await lab.client.status(woken.task_id)).accepted()["submitted_at"] >= deadline
    await woken.wait_event("other", 0)
    (await worker.activation()).wake("event")


@scenario(
    "trouble/old-deadline-beside-a-completion", cites=["TMR-010", "CHD-050", "TMR-015"], profile="core virtual-time"
)
async def test_old_deadline_beside_a_completion(lab: Lab) -> None:
    """The deadline of a wait that was won by its event passes while a child ends: only the child resumes."""
    worker, first = await begun(lab)
    children = await lab.worker(queue=lab.child_queue)
    await first.wait_event("go", HOUR, commands=[first.command("c")])
    (await lab.client.send_event(first.workflow_id, "go", lab.client.event())).accepted()
    second = await worker.activation()
    second.wake("event")
    await second.suspend("c")
    child = await children.running()
    await asyncio.gather(lab.controls.advance(HOUR, leases="hold"), child.succeed("valid"))
    third = await worker.activation()
    assert (third.output_of("c"), "wake" in third.frozen, third.frozen["revision"]) == ("valid", False, 2)
    await worker.nothing()
    await third.complete()
    await lab.client.workflow_until(first.workflow_id, "succeeded", revision=3)


@scenario("trouble/loser-of-a-wait-keeps-nothing-open", cites=["TMR-010", "EVT-021", "WF-051", "DEC-050"])
async def test_loser_of_a_wait_keeps_nothing_open(lab: Lab) -> None:
    """When the event has come, the day that the wait still had does not hold up the end; nor does an unread event."""
    worker, first = await begun(lab)
    await first.wait_event("go", DAY)
    for key in ("go", "never asked for"):
        (await lab.client.send_event(first.workflow_id, key, lab.client.event())).accepted()
    await (await worker.activation()).complete("ended")
    assert (await lab.client.outcome_until(first.workflow_id, "succeeded"))["output"] == "ended"
    await worker.nothing()


@scenario("trouble/status-at-every-step", cites=["WF-031", "ACT-009", "WF-053"])
async def test_status_at_every_step(lab: Lab) -> None:
    """The status is running, waiting and running again as decision, event and end of a child come, and then ended."""
    worker, first = await begun(lab)
    children = await lab.worker(queue=lab.child_queue)
    steps = []

    async def note(*states: str) -> None:
        snapshot = await lab.client.workflow_until(first.workflow_id, *states)
        steps.append((snapshot["state"], snapshot["revision"], snapshot["activation_id"]))

    await note("running")
    await first.wait_event("go")
    await note("waiting")
    (await lab.client.send_event(first.workflow_id, "go", lab.client.event())).accepted()
    second = await worker.activation()
    await note("running")
    await second.suspend("c", commands=[second.command("c")])
    await note("waiting")
    await (await children.running()).succeed()
    third = await worker.activation()
    await note("running")
    await third.complete()
    await note("succeeded")
    assert steps[:5] == [
        ("running", 0, first.task_id),
        ("waiting", 1, None),
        ("running", 1, second.task_id),
        ("waiting", 2, None),
        ("running", 2, third.task_id),
    ]
    assert steps[5][:2] == ("succeeded", 3)
