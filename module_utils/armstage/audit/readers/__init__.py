"""Readers of a project's files that keep the line of everything they read."""
