"""The ways to the backups of a server or a location, for commands, pages and Python programs.

`interface` says what a caller may ask; `server` (custom resources) and `location` (files) answer. `lease`
says when no server is there to do what a caller waits for, and `server_status` asks one for its version. Not
here: how objects print (`pinnace.cli`), and the runs themselves (`pinnace.operations`).
"""
