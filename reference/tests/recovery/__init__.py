"""Real workers on a real coordinator that is disturbed: lost replies at every exchange, kill -9 at every stage."""
