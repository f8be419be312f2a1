"""The content of volumes: finding a pod's volumes, and saving and restoring them with restic."""
