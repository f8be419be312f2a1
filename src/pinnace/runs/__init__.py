"""A run: a backup, restore or deletion, whether a server, a command or a Python program carries it out.

`context` has what engines and collaborators are given, `activity` what the run is doing now, `progress` how
far it is. Not here: the steps of a run, which are in `backup`, `restore` and `operations`.
"""
