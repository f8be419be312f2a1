"""What goes wrong while real backups and restores run, and what they make of it."""
