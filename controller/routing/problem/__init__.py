"""The placement problem as arrays: demand, live planes, the previous plan."""
