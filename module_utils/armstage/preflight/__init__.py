"""The numbered checks A1-A5 and G1-G10: model -> one file a topic -> catalogue -> runner -> cli."""
