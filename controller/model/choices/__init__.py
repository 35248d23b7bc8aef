"""Choices by name, apart from what they choose, so that commands start without NumPy."""
