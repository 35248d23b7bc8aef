"""What the switches count, told in terms of links and flows: utilisation, real paths, imbalance (docs/telemetry.md)."""
