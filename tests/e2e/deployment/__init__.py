"""The image, and what `pinnace install` makes of it on a cluster that runs pods."""
