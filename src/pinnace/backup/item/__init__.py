"""One item of a backup on its way into the tarball: its actions, hooks and volumes.

Not here: which items there are (`backup.plan`, `backup.listing`), and the run as a whole (`backup.engine`).
"""
