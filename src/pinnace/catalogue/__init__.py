"""Which data a backup has of its volumes, where it lies, by which program, how big, and whether it is whole.

One answer for deletion, verification, restores and descriptions, for every way of saving and every program
that wrote the backup. They only decide what is done with the data; `csi` and `volumes` do it. (docs/adr/112)
"""
