"""Recorded exchanges: their form, the scripted stories that are recorded, and the diagrams that tell the same."""
