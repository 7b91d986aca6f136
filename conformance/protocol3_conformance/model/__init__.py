"""A small model of the contract, for generated histories: pure, with time and identifiers as arguments.

It was written from the chapters of the specification alone. It keeps one scope, takes one command after the other, and
says of each which answer must come, and after it what reads must show.
"""
