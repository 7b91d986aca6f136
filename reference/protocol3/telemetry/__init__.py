"""Traces of coordinator and worker: what they ask for, and OpenTelemetry behind it where the extra is installed."""
