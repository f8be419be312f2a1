"""Native snapshots of persistent volumes: taking them, restoring from them, and finding their provider.

Not here: the snapshotters of clouds (`volumes.disks`), and CSI snapshots (`csi`).
"""
