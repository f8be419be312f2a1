"""Whether a stored backup could be restored: its volume data, and a restore on trial.

`volumes` looks for the data of volumes wherever it is, `repositories` in those of restic and kopia. `trial`
restores into scratch namespaces by one of two `restorers`, and `readiness` says what came up. Not here: the
check of the backup's own files (browse.verifying), and printing.
"""
