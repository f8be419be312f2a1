"""Files of age, version 1: only the holder of a key reads them; written and read chunk by chunk.

Not here: the choice of the files of a location that are encrypted, and their recipients (storage). All large
files are for an X25519 key and need no library besides cryptography; pyrage wraps small secrets for keys of
other kinds, and is loaded only then. (https://c2sp.org/age)
"""
