"""Fabric files and the symmetric fabrics that they describe in a few keys."""
