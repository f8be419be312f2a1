"""Objects as blobs in Azure. (docs/spec: STO 14.3)

Not here: finding credentials (clouds.azure).
"""
