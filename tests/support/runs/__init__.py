"""Single runs: backups and restores that a test starts itself, and the command without a server."""
