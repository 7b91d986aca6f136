"""The HTTP edge (chapter 03): connections, routes, the order of checks, replies, listening and draining."""
