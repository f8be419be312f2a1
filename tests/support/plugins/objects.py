"""Objects that ask the plugins of these tests for something."""


def config_map(name: str, wish: str = "", **extra: object) -> dict[str, object]:
    metadata = {"name": name, "annotations": {"example.io/do": wish}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **extra}
