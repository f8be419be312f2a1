"""Files of a backup on this side of the store: the tarball, written and read, and the log of a run."""
