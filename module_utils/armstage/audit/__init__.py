"""A reading of a user's project for what breaks on aarch64."""
