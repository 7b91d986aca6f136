"""The conformance suite: judges any implementation of protocol 3 over its wire."""
