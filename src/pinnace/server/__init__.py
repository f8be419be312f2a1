"""The processes: server, metrics, health, logging, start-up checks. (docs/spec: SRV)"""
