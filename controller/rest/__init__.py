"""The HTTP interface: connections, resources, documents, and the checks of callers."""
