"""Helper parity: the same programs and frames through ours and the published helpers, compared frame by frame.

`./dev parity` runs it; `case.py` says what a case is, `explained.toml` which differences are meant.
"""
