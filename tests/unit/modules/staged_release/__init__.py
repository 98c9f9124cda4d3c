"""staged_release, with archives from a server that misbehaves on demand."""
