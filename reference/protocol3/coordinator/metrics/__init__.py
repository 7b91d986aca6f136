"""What a coordinator tells Prometheus, on a port of its own; nothing of it is imported unless it is asked for."""
