"""The parts the suite plays: a client that submits and observes, a worker that it moves step by step."""
