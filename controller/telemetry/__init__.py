"""Turn switch counters into link and flow data: utilisation, real paths, imbalance (docs/reference/telemetry.md)."""
