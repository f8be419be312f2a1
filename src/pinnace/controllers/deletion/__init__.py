"""Deleting backups: the BackupDeletion controller and the GC controller. (docs/spec: CTL 5-6)

Not here: which files belong to a backup (storage), and snapshots of a provider (volumes, csi).
"""
