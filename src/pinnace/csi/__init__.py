"""CSI snapshots: their objects, taking them in a backup, restoring claims from them. (SRV 18, BKP 11)

`snapshots` is pure; `backup` and `restore` are the item actions. Not here: snapshots by a cloud's own
interface (volumes.disks).
"""
