"""The volumes of a restore: which are restored, the claims bound to them, and data that would be lost.

Not here: the programs and clouds that fill volumes (`volumes`, `csi`), and the objects themselves
(`restore.item`).
"""
