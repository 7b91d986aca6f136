"""The HTTP edge (part 00 section 3): connections, routes, the order of checks, replies, listening and draining."""
