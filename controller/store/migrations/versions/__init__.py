"""The steps, each the work of one release."""
