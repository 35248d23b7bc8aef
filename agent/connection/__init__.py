"""The agent's side of the connection to the controller."""
