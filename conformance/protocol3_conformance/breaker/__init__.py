"""A proxy that breaks one rule of the service behind it: proof that the suite notices.

python -m protocol3_conformance.breaker --target http://127.0.0.1:8080 --listen 127.0.0.1:8081 settlement-replay-forgets
"""
