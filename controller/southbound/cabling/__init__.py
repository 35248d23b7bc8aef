"""The fabric that the observed cables show, and its deviations from the intended one."""
