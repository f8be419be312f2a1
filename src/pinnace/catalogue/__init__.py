"""The data that a backup has of its volumes: its place, its uploader, its size, and whether it is whole.

One answer for deletion, verification, restores and descriptions, for every way of saving and every program
that wrote the backup. They only decide what is done with the data; `csi` and `volumes` do it. (docs/adr/112)
"""
