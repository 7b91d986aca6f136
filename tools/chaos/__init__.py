"""`./dev chaos`: campaigns against real processes, each with an account in the end.

A campaign is a module with `ABOUT` (one line), `add_options(parser)` and `run(options, folder) -> Report`, listed in
`__main__.py`. `options` has `seed` and `json` besides the module's own.
"""
