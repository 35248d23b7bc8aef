"""The policies: each assigns paths to the flows of a traffic."""
