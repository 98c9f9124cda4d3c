"""Configuration files as values that remember the line they were read from."""
