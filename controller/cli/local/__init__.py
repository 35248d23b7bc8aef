"""Commands that need no controller."""
