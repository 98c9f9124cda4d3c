"""The ELF side: a writer of small ELF files, and environments planted with it."""
