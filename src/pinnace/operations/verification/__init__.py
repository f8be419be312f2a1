"""Whether a stored backup could be restored: its volume data, and a restore on trial.

`volumes` looks for the data of volumes wherever it is, `repositories` in those of restic and kopia. Not here:
the check of the backup's own files (browse.verifying), and printing.
"""
