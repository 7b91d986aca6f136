"""The races of chapter 18, each written once (`table`) and played in both orders and free (`contest`).

The players are the conformance suite's scripted clients and workers, so its wire layer judges every reply as well.
`./dev chaos races` plays the same table many times.
"""
