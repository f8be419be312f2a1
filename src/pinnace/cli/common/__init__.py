"""The commands, options and flags that several nouns share: `get`, `describe`, `logs`, `delete`.

`commands` makes the commands; `get`, `reading` and `deletion` do their work over one `Backend`.
Not here: what only one noun can do (its own room), how objects are found (backend), how they print (output).
"""
