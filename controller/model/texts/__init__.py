"""How values are written in documents and requests."""
