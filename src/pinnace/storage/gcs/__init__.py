"""Objects in Google Cloud Storage. (docs/spec: STO 14.2)

Not here: finding credentials (clouds.gcp).
"""
