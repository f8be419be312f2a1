"""Files of age, version 1: only the holder of a key reads them; written and read chunk by chunk.

Not here: which files of a location are encrypted, and to whom (storage). Files to an X25519 key, which all
large files are, need no library besides cryptography; pyrage wraps small secrets for keys of other kinds, and
is loaded only then. (https://c2sp.org/age)
"""
