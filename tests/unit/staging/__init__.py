"""Tests of how releases are fetched and unpacked."""
