"""Objects in S3 and compatible stores. (docs/spec: STO 14.1)

Not here: finding credentials (clouds.aws).
"""
