"""Signatures: DSSE envelopes around in-toto statements, and the keys that make and check them.

Not here: what is signed (storage), and where keys are kept.
"""
