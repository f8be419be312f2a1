"""Explanations of commands and flags: for the help, manual pages and the site.

`values` has the kinds of values of flags and arguments, `sections` the section of each flag, `examples` the
examples of each command, `topics` the texts about several commands; `manual` makes manual pages of all that.
Not here: the commands themselves, and what they do.
"""
