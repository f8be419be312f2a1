"""What users are told about commands and flags: help, examples, manual pages, completion in shells.

`values` says what the value of a flag or argument is, `sections` where a flag stands in the help, `examples`
how a command is used; `manual` makes manual pages of them. `line` reads a command line that is still being
typed, `candidates` says what may come next, `names` asks a server or location for names, `completing` answers
a shell and `scripts` has what the shells run. Not here: the commands themselves, and what they do.
"""
