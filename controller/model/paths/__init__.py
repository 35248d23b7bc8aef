"""The paths of a fabric as arrays, and their numbers."""
