"""The running controller of an optical fabric."""
