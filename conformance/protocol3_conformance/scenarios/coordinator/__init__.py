"""Checks of a coordinator: an HTTP server."""
