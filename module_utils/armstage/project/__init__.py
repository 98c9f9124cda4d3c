"""A user's own project: what it needs on aarch64, its lock, and an environment made from it."""
