"""The BackupSync controller: backups in object storage made known to the cluster. (docs/spec: CTL 7)

Not here: which keys a location has (storage), and what self-service makes of synced backups (nonadmin).
"""
