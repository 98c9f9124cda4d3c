"""ELF files: what they say about themselves, and what the dynamic loader would make of them."""
