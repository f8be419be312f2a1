"""`client config`. (docs/spec: CLI 8.3)"""

from pinnace.cli.client.config_get import get
from pinnace.cli.client.config_set import set_
from pinnace.cli.common.commands import group_of

config = group_of(
    "config", "Read and change the config file: namespace, features, cacert, colorized.", get, set_
)

group = group_of("client", "Work with the settings of this client.", config)
