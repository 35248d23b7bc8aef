"""The objective: levels of an assignment, and upper bounds of any."""
