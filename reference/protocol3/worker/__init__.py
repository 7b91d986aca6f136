"""The worker: sessions, consumers, leases, program processes, settlement."""
