"""The worker: sessions, consumers, leases, program processes, settlement (WRK-*, host side of RUN-*).

`connect.run_worker(settings)` is the whole of it. `consumer.py` is the life of one slot, `attempt.py` of one attempt
under its lease, `execution.py` of one invocation, `process.py` of one program. `authority.py`, `frames.py` and
`reports.py` hold the rules as pure functions. `local_run.py` executes a list of tasks without a coordinator.
"""
