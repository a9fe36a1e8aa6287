"""The benchmark against other packages: designs, environments, drivers."""
