"""asyncio helpers that know nothing of Kubernetes or backups: blocking calls, racing, clocks, waiting."""
