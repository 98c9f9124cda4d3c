"""Tests of the audit of a project."""
