"""Declares commands: each flag once, as a field of the struct that its command gets.

`fields` declares flags and arguments, `types` has what their values may be, `values` the words for them and
where completion finds them, `commands` makes click's commands of that, and `parsing` reads words as the
compatible command line does. Help, completion, manual pages, reference and tests of flags are derived.
(docs/adr/116)
"""
