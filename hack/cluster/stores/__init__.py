"""Object stores on loopback: S3, GCS and Azure Blob, each a program over a folder or in memory."""
