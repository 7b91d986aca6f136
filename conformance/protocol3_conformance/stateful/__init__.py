"""Generated histories: played against the target and the model side by side, shrunk, exported as a script."""
