"""Workflows: every rule of chapters 09 to 18 as a pure decision over loaded records.

beginning    submission, creation, children, activation
controller   owner (who may speak for an activation), context, local, fork
deciding     judgement (steps 2 to 5, outside any transition), decision (steps 1 and 6 to 11), cutoff
going on     waits, events, inputs, completion, resume
ending       cancel, ending, drain
seen         views
"""
