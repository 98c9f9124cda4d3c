"""Each module through its main(): options in, JSON out."""
