"""Program packages: manifest, archive profile, publication, program stores and the worker's package cache (PKG-*).

Nothing here ever imports or runs application code (PKG-027).
"""
