"""What the coordinator does without being asked: wakes, dispatching to waiting polls, due instants, obligations."""
