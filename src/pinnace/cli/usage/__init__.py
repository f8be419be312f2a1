"""What users are told about commands and flags: in the help, in manual pages, on the site.

`values` says what the value of a flag or argument is, `sections` where a flag stands, `examples` how a
command is used, `topics` what several commands have in common; `manual` makes manual pages of all that. Not
here: the commands themselves, and what they do.
"""
