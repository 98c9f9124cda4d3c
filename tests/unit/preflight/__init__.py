"""The numbered checks, over recorded hosts and planted environments."""
