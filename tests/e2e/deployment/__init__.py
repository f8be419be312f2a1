"""The image, and its installation by `pinnace install` on a cluster that runs pods."""
