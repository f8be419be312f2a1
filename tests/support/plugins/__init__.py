"""Programs of plugins and their servers. The plugins themselves are the packages beside this folder."""
