"""Typed messages of the wire contract, one module per subject.

Every class has `from_json(value, at)`, which raises `Refusal` naming the member at fault, and `to_json()`. Normalised
means: defaults written out, absent optional members None.
"""
