"""What each transition and read needs, brought by one plain SELECT: one snapshot, with the clock of its scope.

A load is a coroutine function of what it reads with; the functions here make one for the identities of a command. A
missing record is None, not an error: what that means is decided with everything else.

Columns are read by name. A text for one row becomes one for several where reads come together (`store.gathered`): so it
asks by its own values alone, and of a list or null only what may be common to all.
"""
