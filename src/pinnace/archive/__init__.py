"""The tarball of a backup, written and read, and the log of a run. Not here: storing them (storage)."""
