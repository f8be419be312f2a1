"""Credentials and request signing of AWS, Google Cloud and Azure, for storage and disks alike.

The clouds do not know each other. Not here: what is stored or which disks there are (storage, volumes.disks).
"""
