"""The plan of one host: read, checked, kept in files."""
