"""The content of volumes: finding those of pods, saving them with restic or kopia, and native snapshots."""
