"""What each transition and read needs, brought by one plain SELECT: one snapshot, with the clock of its scope.

A load is a coroutine function of a connection; the functions here make one for the identities of a command. A missing
record is None, not an error: what that means is decided with everything else.
"""
