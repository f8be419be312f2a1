"""The commands that look into backups: `backup ls|show|diff|search|verify|index` and `history`.

One module for each command; `opening` opens backups by the backend of the settings, `rows` prints.
Not here: reading and comparing (`pinnace.browse`).
"""
