"""Checks of workers, by a scripted coordinator."""
