"""Tests of the choice of a wheel index."""
