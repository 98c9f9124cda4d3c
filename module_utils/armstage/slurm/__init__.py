"""Slurm as the way to the nodes: what nodes there are, an allocation, and one long-lived step a node."""
