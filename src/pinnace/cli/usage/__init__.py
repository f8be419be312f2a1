"""Explanations of commands: for manual pages, topics of the help, and mistaken words.

`topics` has the texts about several commands, `manual` makes manual pages of what is declared, `mistaken` has
what to write instead of words that other programs know. Not here: the commands themselves, and what they do.
"""
