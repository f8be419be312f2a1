"""One run put together, once, for everything that starts runs: controllers, commands, Python programs.

`BackupOperation` and `RestoreOperation` choose actions, hooks, snapshots and volumes for one run and call the
engines; `DeleteOperation` deletes what a backup has outside of its files. All take one frozen `RunContext`.
Not here: what an engine does (backup, restore), when a run starts, what becomes of its object (controllers).
"""
