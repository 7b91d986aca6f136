"""`python -m protocol3.cli`: the console script without an installation."""

from protocol3.cli.root import main

main()
