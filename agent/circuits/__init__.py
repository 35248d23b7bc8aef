"""The agent of a server on an optical fabric: it forwards for others by the controller's tables."""
