"""The controllers of a node agent: PodVolumeBackups, PodVolumeRestores and moved data. (CTL 9-10, PVL)

Not here: restic and kopia themselves (volumes), and the server's side, which creates those objects (volumes).
"""
