"""Releases that are complete or absent: fetched, verified, unpacked beside, published by rename."""
