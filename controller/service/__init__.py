"""The controller between its doors: what the network shows and what jobs ask for, to plans and rules."""
