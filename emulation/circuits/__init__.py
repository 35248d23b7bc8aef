"""Planned circuits as networks of the fluid simulator, and as labs."""
