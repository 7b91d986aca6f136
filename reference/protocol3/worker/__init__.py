"""The worker: sessions, consumers, leases, program processes, settlement (WRK-*, host side of RUN-*).

`connect.run_worker(settings)` is the whole of it. Read `consumer.py` for the life of one slot and `attempt.py` for the
life of one attempt; `authority.py`, `frames.py` and `reports.py` hold the rules as pure functions.
"""
