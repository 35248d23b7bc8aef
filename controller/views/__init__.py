"""Documents, history, metrics and traces of a state; pure."""
